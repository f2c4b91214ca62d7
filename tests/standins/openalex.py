"""OpenAlex: a key is needed, windows go down to the microsecond, a page has 100 works at the most.

Each list costs credits of a daily purse; the headers say what is left. The end of a list is an empty page whose
next_cursor is null. Works that were merged answer with a redirect.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tests.standins.library import Entry
from tests.standins.limits import Stretch
from tests.standins.standin import Standin
from tests.standins.times import FOREVER, NoDate, reach
from tests.standins.tokens import DeadToken, Tokens
from tests.standins.wire import Request, Response, as_json

FIRST_ID = 4_400_000_001
MERGED = 100_000_000  # so much above the id that it was merged into
STAMPS = {"updated_date": "updated", "created_date": "created"}
ADDRESS = "https://openalex.org/"
LIST_COST = 10
PASS = "X-Standin"  # a header that lets in without a key, for runs that have none


class Refused(Exception):
    """400, in the words of the service."""


class OpenAlex(Standin):
    name = "openalex"
    precision = timedelta(microseconds=1)
    credits = 100_000

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.tokens = Tokens(None, self.moment)
        self._limit = Stretch(100)
        self.used = 0
        self._cost = 0

    def id_of(self, number: int) -> str:
        return f"{ADDRESS}W{FIRST_ID + number}"

    def number_of(self, provider_id: str) -> int | None:
        digits = provider_id.removeprefix(ADDRESS).upper().removeprefix("W")
        return int(digits) - FIRST_ID if digits.isdigit() and int(digits) >= FIRST_ID else None

    def admits(self, request: Request) -> bool:
        self._cost = 0
        return self.used + LIST_COST <= self.credits and self._limit.admits(self.moment())

    def too_many(self, request: Request) -> Response:
        return as_json({"error": "Rate limit exceeded", "message": "Daily or per-second limit was exceeded."}, 429)

    def decorate(self, request: Request, response: Response) -> None:
        now = datetime.now(UTC)
        midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        response.headers |= {
            "X-RateLimit-Limit": str(self.credits),
            "X-RateLimit-Remaining": str(max(self.credits - self.used, 0)),
            "X-RateLimit-Credits-Used": str(self._cost),
            "X-RateLimit-Reset": str(int((midnight - now).total_seconds())),
        }

    def answer(self, request: Request) -> Response:
        self._cost = 0
        query = request.query
        key = query.get("api_key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        key = key or request.headers.get(PASS.lower(), "")
        if not key or key.startswith("wrong"):
            message = "Add api_key=… to the request; keys are free." if not key else "This key is not known."
            return as_json({"error": "API key required", "message": message}, 403)
        if request.path == "/rate-limit":
            left = {
                "credits_limit": self.credits,
                "credits_used": self.used,
                "credits_remaining": self.credits - self.used,
            }
            return as_json({"rate_limit": left})
        if request.path.startswith("/works/"):
            return self._one(request.path.removeprefix("/works/"))
        if request.path != "/works":
            return as_json({"error": "Not found", "message": f"There is nothing at {request.path}."}, 404)
        try:
            response = self._works(query)
        except Refused as refusal:
            return as_json({"error": "Invalid query parameters error.", "message": str(refusal)}, 400)
        self._cost = LIST_COST
        self.used += LIST_COST
        return response

    def _one(self, ident: str) -> Response:
        number = self.number_of(ident)
        if number is not None and number >= MERGED:
            target = f"{self.url}/works/W{FIRST_ID + number - MERGED}"
            return Response(301, b"", headers={"Location": target})
        entry = self.held(ident)
        if entry is None:
            return as_json({"error": "Not found", "message": f"Work {ident} not found"}, 404)
        return Response(200, self.encoded(entry))

    def _works(self, query: dict[str, str]) -> Response:
        text = query.get("per_page") or query.get("per-page") or "25"
        if not text.isdigit() or not 1 <= int(text) <= 100:
            raise Refused("per_page parameter must be between 1 and 100")
        size, cursor = int(text), query.get("cursor")
        entries = self._found(query)
        if cursor is None:
            number = int(query["page"]) if query.get("page", "1").isdigit() and "page" in query else 1
            if number < 1 or number * size > 10_000:
                raise Refused("Maximum results size of 10,000 records is exceeded. Use cursor=* to go further.")
            start = (number - 1) * size
        else:
            start = 0 if cursor == "*" else self._start(entries, cursor)
        page = self.cut(entries, start, size)
        following = None
        if cursor is not None and page.last is not None:
            following = self.tokens.make(stamp=page.last.updated, number=page.last.number)
        meta = {
            "count": page.total,
            "db_response_time_ms": 31,
            "page": None if cursor else start // size + 1,
            "per_page": size,
            "next_cursor": following,
            "groups_count": None,
        }
        head = f'{{"meta":{json.dumps(meta)},"results":['.encode()
        body = b"".join((head, b",".join(map(self.encoded, page.items)), b'],"group_by":[]}'))
        return Response(200, body, page_key=f"{query.get('filter', '')}|{start}|{size}")

    def _start(self, entries: Sequence[Entry], cursor: str) -> int:
        try:
            state = self.tokens.read(cursor)
        except DeadToken:
            raise Refused("The cursor value is invalid.") from None
        return self.after(entries, datetime.fromisoformat(state["stamp"]), state["number"])

    def _found(self, query: dict[str, str]) -> Sequence[Entry]:
        first, end, stamp = *FOREVER, "updated"
        for part in filter(None, query.get("filter", "").split(",")):
            name, _, value = part.partition(":")
            side, _, field = name.partition("_")
            if name in ("openalex", "openalex_id", "ids.openalex"):
                return self._by_ids(value.split("|"))
            if side not in ("from", "to") or field not in STAMPS:
                raise Refused(f"Unknown filter field: {name}.")
            try:
                low, high = reach(value)
            except NoDate:
                raise Refused(f"Value for param {name} must be a date or ISO timestamp.") from None
            stamp = STAMPS[field]
            first, end = (low, end) if side == "from" else (first, high)
        return self.window(stamp, first, end, query.get("search", ""))

    def _by_ids(self, ids: list[str]) -> Sequence[Entry]:
        if len(ids) > 100:
            raise Refused("Maximum number of values exceeded for openalex. Decrease values to 100 or below.")
        found = {entry.number: entry for one in ids if (entry := self.held(one))}
        return sorted(found.values(), key=lambda entry: (entry.updated, entry.number))

    def encode(self, entry: Entry) -> bytes:
        ident = self.id_of(entry.number)
        doi = f"https://doi.org/10.5555/standin.{entry.number:07d}"
        title = f"Stand-in work {entry.number}, revision {entry.version}"
        work = {
            "id": ident,
            "doi": doi,
            "title": title,
            "display_name": title,
            "publication_year": entry.created.year,
            "publication_date": f"{entry.created:%Y-%m-%d}",
            "ids": {"openalex": ident, "doi": doi},
            "language": "en",
            "type": "article",
            "primary_location": {"is_oa": True, "source": {"display_name": "Journal of Laboratory Medicine"}},
            "authorships": [{"author_position": "first", "author": {"display_name": "Ana B Rivera"}}],
            "cited_by_count": entry.version - 1,
            "is_retracted": entry.is_deleted,
            "keywords": [{"display_name": entry.subject}],
            "abstract_inverted_index": {self.filler(entry): [0]},
            "updated_date": f"{entry.updated:%Y-%m-%dT%H:%M:%S.%f}",
            "created_date": f"{entry.created:%Y-%m-%d}",
        }
        return json.dumps(work, separators=(",", ":")).encode()
