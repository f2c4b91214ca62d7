"""arXiv: Atom feeds, windows over the day of submission to the minute, one request every three seconds.

Only `submittedDate` can be asked for; a revision changes `updated` and the vN of the id. Errors come as a feed with
one entry titled "Error", often with status 200. No more than 2,000 entries a request, 30,000 a query.
"""

import re
from collections.abc import Sequence
from html import escape

from tests.standins.library import Entry
from tests.standins.limits import Stretch
from tests.standins.standin import Standin
from tests.standins.times import FOREVER, NoDate, reach, seconds_text
from tests.standins.wire import Request, Response, as_text

ATOM = "application/atom+xml; charset=utf-8"
WINDOW = re.compile(r"submittedDate:\[(\d+)\s+TO\s+(\d+)\]")
IDENT = re.compile(r"(\d{4})\.(\d{5,6})(?:v(\d+))?")
CATEGORY = {"q-bio.qm": "asthma", "q-bio.to": "diabetes", "physics.med-ph": "oncology", "stat.ap": "cardiology"}
HEAD = (
    "<?xml version='1.0' encoding='UTF-8'?>\n"
    '<feed xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/" xmlns:arxiv="http://arxiv.org/schemas/atom" '
    'xmlns="http://www.w3.org/2005/Atom">\n'
)
MAX_RESULTS, SLICE = 30_000, 2_000


class Refused(Exception):
    def __init__(self, said: str, status: int = 200) -> None:
        super().__init__(said)
        self.status = status


class Arxiv(Standin):
    name = "arxiv"

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self._limit = Stretch(1, 3.0)
        self._created = {entry.number: entry.created for entry in self.library.revisions() if entry.version == 1}

    def id_of(self, number: int) -> str:
        return f"{self._created[number]:%y%m}.{number + 1:05d}"

    def number_of(self, provider_id: str) -> int | None:
        found = IDENT.fullmatch(provider_id)
        number = int(found[2]) - 1 if found else -1
        return number if found and number in self._created and self.id_of(number)[:4] == found[1] else None

    def admits(self, request: Request) -> bool:
        return self.counts.in_flight <= 1 and self._limit.admits(self.moment())

    def too_many(self, request: Request) -> Response:
        return as_text("Rate exceeded.", 429)

    def in_band(self) -> Response:
        return _error("internal error", 200)

    def answer(self, request: Request) -> Response:
        if request.path.rstrip("/") != "/api/query":
            return as_text("Not Found", 404)
        try:
            return self._feed(request.form)
        except Refused as refusal:
            return _error(str(refusal), refusal.status)

    def _feed(self, query: dict[str, str]) -> Response:
        start, most = _whole(query, "start", 0), _whole(query, "max_results", 10)
        if most > MAX_RESULTS or start > MAX_RESULTS:
            raise Refused(f"start and max_results must not exceed {MAX_RESULTS}", 400)
        entries = self._found(query)
        page = self.cut(entries, start, min(most, SLICE, MAX_RESULTS - start))
        asked = f"search_query={query.get('search_query', '')}&id_list={query.get('id_list', '')}"
        title = escape(f"arXiv Query: {asked}&start={start}&max_results={most}")
        head = (
            f"{HEAD}<id>https://arxiv.org/api/standin</id><title>{title}</title>"
            f"<updated>{seconds_text(self.library.now)}</updated>"
            f"<opensearch:itemsPerPage>{most}</opensearch:itemsPerPage>"
            f"<opensearch:totalResults>{page.total}</opensearch:totalResults>"
            f"<opensearch:startIndex>{start}</opensearch:startIndex>\n"
        )
        body = b"".join((head.encode(), *map(self.encoded, page.items), b"</feed>\n"))
        order = f"{query.get('sortBy', '')} {query.get('sortOrder', '')}"
        return Response(200, body, ATOM, page_key=f"{asked}|{order}|{start}|{most}")

    def _found(self, query: dict[str, str]) -> Sequence[Entry]:
        if listed := [one for one in query.get("id_list", "").split(",") if one]:
            return self._by_ids(listed)
        asked = query.get("search_query", "")
        first, end = FOREVER
        if window := WINDOW.search(asked):
            try:
                first, end = reach(window[1], compact=True)[0], reach(window[2], compact=True)[1]
            except NoDate as failure:
                raise Refused(f"incorrect date {failure}") from None
        elif "submittedDate" in asked or not asked:
            raise Refused("search_query or id_list must be given, dates as YYYYMMDDHHMM")
        subject = next((subject for name, subject in CATEGORY.items() if f"cat:{name}" in asked.lower()), asked)
        by = "updated" if query.get("sortBy") == "lastUpdatedDate" else "created"
        found = list(self.window("created", first, end, subject))
        if by == "updated":
            found.sort(key=lambda entry: (entry.updated, entry.number))
        return found if query.get("sortOrder", "descending") == "ascending" else found[::-1]

    def _by_ids(self, listed: list[str]) -> Sequence[Entry]:
        for one in listed:
            if not IDENT.fullmatch(one):
                raise Refused(f"incorrect id format for {one}")
        return [entry for one in dict.fromkeys(listed) if (entry := self.held(one))]

    def encode(self, entry: Entry) -> bytes:
        ident = f"{self.id_of(entry.number)}v{entry.version}"
        category = next(name for name, subject in CATEGORY.items() if subject == entry.subject)
        comment = "<arxiv:comment>This paper has been withdrawn</arxiv:comment>" if entry.is_deleted else ""
        return (
            f"<entry><id>http://arxiv.org/abs/{ident}</id>"
            f"<title>Stand-in preprint {entry.number} &amp; its\n  wrapped title</title>"
            f"<updated>{seconds_text(entry.updated)}</updated>"
            f'<link href="https://arxiv.org/abs/{ident}" rel="alternate" type="text/html"/>'
            f'<link href="https://arxiv.org/pdf/{ident}" rel="related" type="application/pdf" title="pdf"/>'
            f"<summary>{escape(self.filler(entry))}</summary>"
            f'<category term="{category}" scheme="http://arxiv.org/schemas/atom"/>'
            f"<published>{seconds_text(entry.created)}</published>{comment}"
            f'<arxiv:primary_category term="{category}"/>'
            "<author><name>Ana B. Rivera</name></author></entry>\n"
        ).encode()


def _error(said: str, status: int) -> Response:
    ident = "http://arxiv.org/api/errors#standin"
    body = (
        f"{HEAD}<id>{ident}</id><opensearch:totalResults>1</opensearch:totalResults>"
        f"<entry><id>{ident}</id><title>Error</title><summary>{escape(said)}</summary></entry></feed>\n"
    )
    return as_text(body, status, ATOM)


def _whole(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.lstrip("-").isdigit():
        raise Refused(f"{name} must be an integer")
    if int(text) < 0:
        raise Refused(f"{name} must be non-negative")
    return int(text)
