"""DOAJ: the query stands in the path, pages are counted from 1, and nothing beyond 1,000 results is served.

A page size above 100 is taken for 100. The next link is given even where following it is refused.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from tests.standins.library import Entry
from tests.standins.limits import Bucket
from tests.standins.standin import Standin
from tests.standins.times import FOREVER, NoDate, reach, seconds_text
from tests.standins.wire import HTML, Request, Response, as_json, as_text

PATH = re.compile(r"/api(/v\d)?/(?:search/articles/(?P<query>.+)|articles/(?P<id>[0-9a-f]+))", re.DOTALL)
WINDOW = re.compile(r"(last_updated|created_date):([\[{])(\S+) TO (\S+?)([\]}])")
CEILING, LARGEST = 1000, 100


class Refused(Exception):
    """400, in the words of the service."""


class Doaj(Standin):
    name = "doaj"

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self._limit = Bucket(2, 5)

    def id_of(self, number: int) -> str:
        return f"{number:08x}{hashlib.sha256(str(number).encode()).hexdigest()[:24]}"

    def number_of(self, provider_id: str) -> int | None:
        try:
            number = int(provider_id[:8], 16)
        except ValueError:
            return None
        return number if self.id_of(number) == provider_id else None

    def admits(self, request: Request) -> bool:
        return self._limit.admits(self.moment())

    def too_many(self, request: Request) -> Response:
        return as_text("<html><body><h1>429 Too Many Requests</h1></body></html>", 429, HTML)

    def answer(self, request: Request) -> Response:
        found = PATH.fullmatch(request.path)
        if found is None:
            return as_json({"status": "not_found", "error": "There is nothing here."}, 404)
        if found["id"]:
            entry = self.held(found["id"])
            gone = as_json({"status": "not_found", "error": "The article was not found."}, 404)
            return Response(200, self.encoded(entry)) if entry else gone
        try:
            return self._search(found["query"], request.query)
        except Refused as refusal:
            return as_json({"status": "bad_request", "error": f"{refusal} (ref: standin)"}, 400)

    def _search(self, asked: str, query: dict[str, str]) -> Response:
        page, size = _whole(query, "page", 1), min(_whole(query, "pageSize", 10), LARGEST)
        if page * size > CEILING:
            raise Refused(f"You cannot access results beyond {CEILING} records via this API.")
        entries = self._found(asked)
        if query.get("sort", "").endswith(":desc"):
            entries = entries[::-1]
        cut = self.cut(entries, (page - 1) * size, size)
        head = {
            "total": cut.total,
            "page": page,
            "pageSize": size,
            "timestamp": f"{self.library.now:%Y-%m-%dT%H:%M:%S.%fZ}",
            "query": asked,
        }
        items = b",".join(map(self.encoded, cut.items))
        links = self._links(asked, page, size, cut.total)
        body = json.dumps(head)[:-1].encode() + b',"results":[' + items + b"]" + links
        return Response(200, body + b"}", page_key=f"{asked}|{page}|{size}")

    def _links(self, asked: str, page: int, size: int, total: int) -> bytes:
        last = -(-total // size)
        numbers = {"prev": page - 1 if page > 1 else 0, "next": page + 1 if page < last else 0, "last": last}
        links = {
            name: f"{self.url}/api/v4/search/articles/{quote(asked, safe='')}?page={number}&pageSize={size}"
            for name, number in numbers.items()
            if number
        }
        return b"," + json.dumps(links)[1:-1].encode() if links else b""

    def _found(self, asked: str) -> Sequence[Entry]:
        if "*" in asked.replace("TO *", "").replace("[*", "").replace("*:*", "") or "~" in asked:
            raise Refused("Wildcards and fuzzy searches are not allowed.")
        first, end, stamp = *FOREVER, "updated"
        if window := WINDOW.search(asked):
            stamp = "updated" if window[1] == "last_updated" else "created"
            try:
                low = FOREVER if window[3] == "*" else reach(window[3])
                high = FOREVER if window[4] == "*" else reach(window[4])
            except NoDate as failure:
                raise Refused(f"Failed to parse date {failure}") from None
            first = low[0] if window[2] == "[" else low[1]
            end = high[1] if window[5] == "]" else high[0]
        return self.window(stamp, first, end, asked)

    def encode(self, entry: Entry) -> bytes:
        word = "WITHDRAWN: " if entry.is_deleted else ""
        article = {
            "last_updated": seconds_text(entry.updated),
            "created_date": seconds_text(entry.created),
            "id": self.id_of(entry.number),
            "bibjson": {
                "identifier": [{"id": f"10.5555/standin.{entry.number:07d}", "type": "doi"}],
                "title": f"{word}Stand-in article {entry.number}, revision {entry.version}",
                "year": str(entry.created.year),
                "month": str(entry.created.month),
                "journal": {"title": "Journal of Laboratory Medicine", "publisher": "Lab Press", "country": "GB"},
                "author": [{"name": "Ana B Rivera", "affiliation": "Dept of Tests"}],
                "abstract": self.filler(entry),
                "keywords": [entry.subject],
            },
        }
        return json.dumps(article, separators=(",", ":")).encode()


def _whole(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        raise Refused(f"{name} must be a whole number above zero")
    return int(text)
