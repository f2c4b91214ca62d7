"""Europe PMC: one search address, cursor marks, update dates by day, and errors inside a 200.

A record is named by two parts, source and id: the same id occurs under two sources. The end of a list is an empty
page, or a cursor mark that does not change.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.standins.library import Entry
from tests.standins.limits import Stretch
from tests.standins.standin import Standin
from tests.standins.times import FOREVER, NoDate, reach
from tests.standins.tokens import DeadToken, Tokens
from tests.standins.wire import Request, Response, as_json

WINDOW = re.compile(r"(UPDATE_DATE|FIRST_IDATE|CREATION_DATE):\[(\S+) TO (\S+?)\]", re.IGNORECASE)
ONE = re.compile(
    r"(?:SRC:\"?(?P<before>\w+)\"?\s+AND\s+)?EXT_ID:\"?(?P<id>\w+)\"?(?:\s+AND\s+SRC:\"?(?P<after>\w+)\"?)?",
    re.IGNORECASE,
)
FIRST_ID = 40_000_000
SOURCES = ("MED", "AGR")


class InBand(Exception):
    """Told with status 200."""


class EuropePmc(Standin):
    name = "europepmc"
    precision = timedelta(days=1)

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.tokens = Tokens(None, self.moment)
        self._limit = Stretch(10)

    def id_of(self, number: int) -> str:
        source = "AGR" if number % 10 == 9 else "MED"
        return f"{source}:{FIRST_ID + number - (number % 10 == 9)}"

    def number_of(self, provider_id: str) -> int | None:
        source, _, digits = provider_id.partition(":")
        if not digits.isdigit():
            return None
        number = int(digits) - FIRST_ID + (source == "AGR")
        return number if number >= 0 and self.id_of(number) == provider_id else None

    def admits(self, request: Request) -> bool:
        return self._limit.admits(self.moment())

    def in_band(self) -> Response:
        return as_json({"version": "6.9", "errCode": 500, "errMsg": "The search is not available at the moment"})

    def answer(self, request: Request) -> Response:
        if not request.path.rstrip("/").endswith("/search"):
            return as_json({"errCode": 404, "errMsg": "No such address"}, 404)
        try:
            return self._search(request.form)
        except InBand as failure:
            return as_json({"version": "6.9", "errCode": 404, "errMsg": str(failure)})

    def _search(self, query: dict[str, str]) -> Response:
        asked = query.get("query", "").strip()
        if not asked:
            raise InBand("No query parameter")
        size = query.get("pageSize", "25")
        if not size.isdigit() or not 1 <= int(size) <= 1000:
            raise InBand("Invalid page size provided. Valid size is between 1 and 1000")
        entries = self._found(asked)
        mark = query.get("cursorMark", "*")
        start = 0 if mark == "*" else self._start(entries, mark)
        page = self.cut(entries, start, int(size))
        after = page.last
        following = mark if after is None else self.tokens.make(stamp=after.updated, number=after.number)
        return self._listed(query, page.items, page.total, following, f"{asked}|{start}|{size}")

    def _start(self, entries: Sequence[Entry], mark: str) -> int:
        try:
            state = self.tokens.read(mark)
        except DeadToken:
            raise InBand("Invalid cursorMark provided") from None
        return self.after(entries, datetime.fromisoformat(state["stamp"]), state["number"])

    def _found(self, asked: str) -> Sequence[Entry]:
        if ones := list(ONE.finditer(asked)):
            named = [(one["id"], one["before"] or one["after"]) for one in ones]
            ids = [f"{source}:{one}" for one, src in named for source in ([src.upper()] if src else SOURCES)]
            found = {entry.number: entry for one in ids if (entry := self.held(one))}
            return sorted(found.values(), key=lambda entry: (entry.updated, entry.number))
        first, end, stamp = *FOREVER, "updated"
        if window := WINDOW.search(asked):
            stamp = "updated" if window[1].upper() == "UPDATE_DATE" else "created"
            try:
                first, end = _day(window[2])[0], _day(window[3])[1]
            except NoDate as failure:
                raise InBand(f"Invalid date {failure}") from None
        return self.window(stamp, first, end, asked)

    def _listed(self, query: dict[str, str], items: Sequence[Entry], total: int, mark: str, key: str) -> Response:
        request = {
            "queryString": query["query"],
            "resultType": query.get("resultType", "lite"),
            "cursorMark": query.get("cursorMark", "*"),
            "pageSize": int(query.get("pageSize", "25")),
            "sort": query.get("sort", ""),
            "synonym": query.get("synonym", "false") == "true",
        }
        head = f'{{"version":"6.9","hitCount":{total},"nextCursorMark":"{mark}","request":{json.dumps(request)}'
        body = b"".join((head.encode(), b',"resultList":{"result":[', b",".join(map(self.encoded, items)), b"]}}"))
        return Response(200, body, page_key=key)

    def encode(self, entry: Entry) -> bytes:
        source, _, ident = self.id_of(entry.number).partition(":")
        word = "WITHDRAWN: " if entry.is_deleted else ""
        record = {
            "id": ident,
            "source": source,
            **({"pmid": ident} if source == "MED" else {}),
            "doi": f"10.5555/standin.{entry.number:07d}",
            "title": f"{word}Stand-in record {entry.number}, revision {entry.version}.",
            "authorString": "Rivera AB.",
            "journalInfo": {"issue": "4", "volume": "12", "journal": {"title": "Journal of Laboratory Medicine"}},
            "pubYear": str(entry.created.year),
            "abstractText": self.filler(entry),
            "keywordList": {"keyword": [entry.subject]},
            "isOpenAccess": "Y",
            "citedByCount": entry.version - 1,
            "firstIndexDate": f"{entry.created:%Y-%m-%d}",
            "firstPublicationDate": f"{entry.created:%Y-%m-%d}",
        }
        return json.dumps(record, separators=(",", ":")).encode()


def _day(text: str) -> tuple[datetime, datetime]:
    if text == "*":
        return FOREVER
    if "T" in text:
        raise NoDate(text)
    return reach(text)
