"""Crossref: works by the time of indexing, read through cursors that live for five minutes.

The last page also carries a next-cursor; a reader must stop at the first page that is not full. A cursor holds its
result fast, as a scroll does. Limits differ by pool (with or without mailto) and by kind of request.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.standins.library import Entry
from tests.standins.limits import Stretch
from tests.standins.standin import Standin
from tests.standins.times import FOREVER, NoDate, reach, seconds_text
from tests.standins.tokens import DeadToken, Tokens
from tests.standins.wire import HTML, Request, Response, as_json, as_text

PREFIX = "10.5555/standin."
STAMPS = {"index": "updated", "update": "updated", "deposit": "updated", "created": "created"}
DATE_FILTER = re.compile(rf"(from|until)-({'|'.join(STAMPS)})-date")
PARAMETERS = {"query", "filter", "rows", "offset", "cursor", "sort", "order", "select", "mailto", "facet", "sample"}


@dataclass(frozen=True, slots=True)
class Pool:
    single: int  # a second
    listed: int
    at_once: int


POOLS = {"public": Pool(5, 1, 1), "polite": Pool(10, 3, 3)}


class Refused(Exception):
    def __init__(self, kind: str, value: str, message: str) -> None:
        super().__init__(message)
        self.problem = {"type": kind, "value": value, "message": message}


class Crossref(Standin):
    name = "crossref"
    token_ttl = 300.0

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.tokens = Tokens(self.token_ttl, self.moment)
        self._limits = {
            (pool, kind): Stretch(getattr(limits, kind))
            for pool, limits in POOLS.items()
            for kind in ("single", "listed")
        }

    def id_of(self, number: int) -> str:
        return f"{PREFIX}{number:07d}"

    def number_of(self, provider_id: str) -> int | None:
        digits = provider_id.lower().removeprefix(PREFIX)
        return int(digits) if digits.isdigit() and self.id_of(int(digits)) == provider_id.lower() else None

    def admits(self, request: Request) -> bool:
        pool, kind = self._pool(request)
        return self.counts.in_flight <= POOLS[pool].at_once and self._limits[pool, kind].admits(self.moment())

    def _pool(self, request: Request) -> tuple[str, str]:
        named = "mailto=" in request.raw_query or "mailto:" in request.headers.get("user-agent", "")
        kind = "listed" if request.path.rstrip("/").endswith("/works") else "single"
        return ("polite" if named else "public"), kind

    def decorate(self, request: Request, response: Response) -> None:
        pool, kind = self._pool(request)
        response.headers |= {
            "x-rate-limit-limit": str(getattr(POOLS[pool], kind)),
            "x-rate-limit-interval": "1s",
            "x-concurrency-limit": str(POOLS[pool].at_once),
            "x-api-pool": f"{pool}-{'array' if kind == 'listed' else 'single'}",
        }

    def too_many(self, request: Request) -> Response:
        return as_text("Too many requests.\n", 429)

    def broken(self) -> Response:
        page = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
        return as_text(page, 502, HTML)

    def answer(self, request: Request) -> Response:
        path = request.path.removeprefix("/v1").rstrip("/")
        if path == "/works":
            try:
                return self._works(request.query)
            except Refused as refusal:
                problem = {"status": "failed", "message-type": "validation-failure", "message": [refusal.problem]}
                return as_json(problem, 400)
        if path.startswith("/works/") and (entry := self.held(path.removeprefix("/works/"))):
            head = b'{"status":"ok","message-type":"work","message-version":"1.0.0","message":'
            return Response(200, head + self.encoded(entry) + b"}")
        return as_text("Resource not found.", 404)

    def _works(self, query: dict[str, str]) -> Response:
        for name in query:
            if name not in PARAMETERS and not name.startswith("query."):
                raise Refused("parameter-not-found", name, f"There is no parameter {name} for this route.")
        rows = _whole(query, "rows", 20, 1000)
        if "cursor" in query:
            return self._by_cursor(query, rows)
        offset = _whole(query, "offset", 0, 10_000)
        if offset + rows > 10_000:
            raise Refused("integer-not-valid", str(offset), "offset and rows together must not exceed 10000")
        entries = self._found(query)
        page = self.cut(entries, offset, rows)
        key = f"{query.get('filter', '')}|{offset}|{rows}"
        return self._listed(page.items, page.total, {"start-index": offset}, None, key)

    def _by_cursor(self, query: dict[str, str], rows: int) -> Response:
        if rows == 0:
            raise Refused("integer-not-valid", "0", "rows must be above zero when a cursor is used")
        try:
            state = self.tokens.read(query["cursor"]) if query["cursor"] != "*" else None
            frozen = state["frozen"] if state else self.tokens.freeze(list(self._found(query)))
            entries = self.tokens.frozen(frozen)
        except DeadToken:
            raise Refused("cursor-not-valid", query["cursor"], "The cursor is unknown or has expired.") from None
        start = state["start"] if state else 0
        page = self.cut(entries, start, rows)
        token = self.tokens.make(frozen=frozen, start=page.next_start)
        key = f"{query.get('filter', '')}|{start}|{rows}"
        return self._listed(page.items, page.total, {"start-index": 0}, token, key)

    def _found(self, query: dict[str, str]) -> Sequence[Entry]:
        first, end = FOREVER
        stamp, dois = "updated", []
        for part in filter(None, query.get("filter", "").split(",")):
            name, _, value = part.partition(":")
            if name == "doi":
                dois.append(value)
            elif found := DATE_FILTER.fullmatch(name):
                stamp = STAMPS[found[2]]
                low, high = _date(name, value)
                first, end = (low, end) if found[1] == "from" else (first, high)
            else:
                message = f"Filter {name} specified but there is no such filter for this route."
                raise Refused("filter-not-available", name, message)
        if dois:
            return [entry for doi in dict.fromkeys(dois) if (entry := self.held(doi))]
        return self.window(stamp, first, end, query.get("query", ""))

    def _listed(self, items: Sequence[Entry], total: int, shown: dict, token: str | None, key: str) -> Response:
        head = (
            '{"status":"ok","message-type":"work-list","message-version":"1.0.0","message":{"facets":{},'
            f'"total-results":{total},"items":['
        )
        tail = f'],"items-per-page":{len(items)},"query":{json.dumps({**shown, "search-terms": None})}'
        tail += f',"next-cursor":"{token}"}}}}' if token else "}}"
        body = b"".join((head.encode(), b",".join(map(self.encoded, items)), tail.encode()))
        return Response(200, body, page_key=key)

    def encode(self, entry: Entry) -> bytes:
        doi = self.id_of(entry.number)
        word = "WITHDRAWN: " if entry.is_deleted else ""
        work = {
            "indexed": _moment(entry.updated) | {"version": "3.42.1"},
            "reference-count": entry.number % 50,
            "publisher": "Lab Press",
            "issue": str(entry.number % 12 + 1),
            "DOI": doi,
            "type": "journal-article",
            "created": _moment(entry.created),
            "deposited": _moment(entry.updated),
            "source": "Crossref",
            "is-referenced-by-count": entry.version - 1,
            "title": [f"{word}Stand-in work {entry.number} <i>in vitro</i> & in print, revision {entry.version}"],
            "prefix": "10.5555",
            "author": [{"given": "Ana B", "family": "Rivera", "sequence": "first", "affiliation": []}],
            "member": "7822",
            "container-title": ["Journal of Laboratory Medicine"],
            "URL": f"https://doi.org/{doi}",
            "ISSN": ["1234-5678"],
            "subject": [entry.subject],
            "abstract": f"<jats:p>{self.filler(entry)}</jats:p>",
        }
        return json.dumps(work, separators=(",", ":")).encode()


def _moment(instant: datetime) -> dict:
    return {
        "date-parts": [[instant.year, instant.month, instant.day]],
        "date-time": seconds_text(instant),
        "timestamp": int(instant.timestamp()) * 1000,
    }


def _whole(query: dict[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    if not text.isdigit() or int(text) > most:
        raise Refused("integer-not-valid", text, f"{name} must be a whole number from 0 to {most}")
    return int(text)


def _date(name: str, value: str) -> tuple[datetime, datetime]:
    try:
        return reach(value)
    except NoDate:
        raise Refused("date-not-valid", value, f"Filter {name} expects a date such as 2026-11-01T15:04:05") from None
