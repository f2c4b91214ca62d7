"""PubMed's E-utilities: ids by esearch, records by efetch, short forms by esummary.

Nothing beyond the first 9,999 ids of a query can be had: a page that reaches further is cut, with a warning only, and
an offset beyond it is an error inside a 200 that is not even JSON. Counts are strings. Date windows go by day.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.standins.library import Entry
from tests.standins.limits import Stretch
from tests.standins.pubmed_records import article, is_book, summary
from tests.standins.standin import Standin
from tests.standins.times import FOREVER, NoDate, reach
from tests.standins.tokens import DeadToken, Tokens
from tests.standins.wire import JSON, TEXT, Request, Response, as_json, as_text

BASE = "/entrez/eutils/"
FIRST_ID = 40_000_001
CEILING = 9_999
STAMPS = {"mdat": "updated", "edat": "created", "pdat": "created", "crdt": "created", "dp": "created"}
IN_TERM = re.compile(r"([\d/]+):([\d/]+)\[(mdat|edat|pdat|crdt|dp|uid)\]", re.IGNORECASE)
HEADER = {"type": "esearch", "version": "0.3"}
SET = (
    '<?xml version="1.0" ?>\n<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n<PubmedArticleSet>\n'
)


class Refused(Exception):
    """Told inside a 200."""


class Pubmed(Standin):
    name = "pubmed"
    precision = timedelta(days=1)
    history_ttl = 8 * 3600.0

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.history = Tokens(self.history_ttl, self.moment)
        self._limits = {False: Stretch(3), True: Stretch(10)}

    def id_of(self, number: int) -> str:
        return str(FIRST_ID + number)

    def number_of(self, provider_id: str) -> int | None:
        return int(provider_id) - FIRST_ID if provider_id.isdigit() and int(provider_id) >= FIRST_ID else None

    def admits(self, request: Request) -> bool:
        return self._limits["api_key" in request.form].admits(self.moment())

    def too_many(self, request: Request) -> Response:
        key = request.form.get("api_key")
        limit = 10 if key else 3
        who = key or request.peer
        said = {"error": "API rate limit exceeded", "api-key": who, "count": str(limit + 1), "limit": str(limit)}
        return as_json(said, 429)

    def in_band(self) -> Response:
        return _failure("Search Backend failed: Exception:\nthe search could not be run, please try again\n")

    def answer(self, request: Request) -> Response:
        asked = request.form
        if asked.get("api_key", "").startswith("wrong"):
            return as_json({"error": "API key invalid", "api-key": asked["api_key"], "type": "api"}, 400)
        programs = {"esearch.fcgi": self._esearch, "efetch.fcgi": self._efetch, "esummary.fcgi": self._esummary}
        program = programs.get(request.path.removeprefix(BASE))
        if program is None:
            return as_text("<html><body>404</body></html>", 404, "text/html")
        if asked.get("db") != "pubmed":
            return as_json({"header": HEADER, "esearchresult": {"ERROR": "Invalid db name specified"}})
        if request.method == "GET" and asked.get("id", "").count(",") >= 200:
            return as_text("Request-URI Too Long", 414)
        try:
            return program(asked)
        except Refused as refusal:
            return _failure(str(refusal))

    def _esearch(self, asked: dict[str, str]) -> Response:
        entries = self._found(asked)
        if asked.get("rettype") == "count":
            return _shaped(asked, {"count": str(len(entries))}, [])
        start, size = _whole(asked, "retstart", 0), _whole(asked, "retmax", 20)
        if start >= CEILING:
            raise Refused(
                f"Search Backend failed: Exception:\n'retstart' cannot be larger than {CEILING - 1}. "
                "Only the first 9,999 records of a query can be retrieved.\n"
            )
        fits = min(size, CEILING - start)
        page = self.cut(entries, start, fits)
        result: dict = {"count": str(page.total), "retmax": str(len(page.items)), "retstart": str(start)}
        if asked.get("usehistory") == "y":
            result |= {"querykey": str(self.history.freeze(list(entries))), "webenv": "MCID_standin0001"}
        ids = [self.id_of(entry.number) for entry in page.items]
        result |= {"idlist": ids, "translationset": [], "querytranslation": asked.get("term", "")}
        if fits < size and len(entries) > CEILING:
            said = f"Restrictions achieved. start and count adjusted to {start}, {fits}"
            result["warninglist"] = {"phrasesignored": [], "quotedphrasesnotfound": [], "outputmessages": [said]}
        response = _shaped(asked, result, ids)
        window = [asked.get(name, "") for name in ("term", "datetype", "mindate", "maxdate")]
        response.page_key = "|".join((*window, str(start), str(size)))
        return response

    def _found(self, asked: dict[str, str]) -> Sequence[Entry]:
        if "WebEnv" in asked and "query_key" in asked:
            return self._remembered(asked)
        term = asked.get("term", "")
        if not term:
            raise Refused("Empty term and query_key - nothing todo")
        stamp, first, end = STAMPS.get(asked.get("datetype", "pdat"), "created"), *FOREVER
        if asked.get("mindate") and asked.get("maxdate"):  # one alone is passed over
            first, end = _days(asked["mindate"], asked["maxdate"])
        entries = self.window(stamp, first, end, IN_TERM.sub("", term))
        for low, high, field in IN_TERM.findall(term):
            entries = [entry for entry in entries if self._within(entry, low, high, field.lower())]
        return sorted(entries, key=lambda entry: -entry.number)

    def _within(self, entry: Entry, low: str, high: str, field: str) -> bool:
        if field == "uid":
            return int(low) <= FIRST_ID + entry.number <= int(high)
        first, end = _days(low, high)
        return bool(first <= getattr(entry, STAMPS[field]) < end)

    def _remembered(self, asked: dict[str, str]) -> Sequence[Entry]:
        try:
            return self.history.frozen(int(asked["query_key"]))
        except (DeadToken, ValueError):
            raise Refused("Unable to obtain query #" + asked["query_key"]) from None

    def _named(self, asked: dict[str, str]) -> list[str]:
        if "WebEnv" in asked and "query_key" in asked:
            start, size = _whole(asked, "retstart", 0), min(_whole(asked, "retmax", 20), 10_000)
            return [self.id_of(entry.number) for entry in self._remembered(asked)[start : start + size]]
        return [one.strip() for one in asked.get("id", "").split(",") if one.strip()]

    def _efetch(self, asked: dict[str, str]) -> Response:
        ids = self._named(asked)
        if not ids:
            return as_text("<eFetchResult><ERROR>Empty id list</ERROR></eFetchResult>", 400, "text/xml")
        entries = [entry for one in dict.fromkeys(ids) if (entry := self.held(one))]
        if entries:
            entries = self.cut(entries, 0, len(entries)).items
        body = b"".join((SET.encode(), *map(self.encoded, entries), b"</PubmedArticleSet>\n"))
        return Response(200, body, "text/xml; charset=UTF-8", page_key=f"efetch|{ids[0]}|{ids[-1]}|{len(ids)}")

    def _esummary(self, asked: dict[str, str]) -> Response:
        ids = list(dict.fromkeys(self._named(asked)))
        missing = "cannot get document summary"
        found = {one: self.held(one) for one in ids}
        result = {
            one: summary(entry, one) if entry and not is_book(entry) else {"uid": one, "error": missing}
            for one, entry in found.items()
        }
        return as_json({"header": HEADER | {"type": "esummary"}, "result": {"uids": ids, **result}})

    def encode(self, entry: Entry) -> bytes:
        return article(entry, self.id_of(entry.number), self.filler(entry)).encode()


def _shaped(asked: dict[str, str], result: dict, ids: list[str]) -> Response:
    if asked.get("retmode") == "json":
        return as_json({"header": HEADER, "esearchresult": result})
    listed = "".join(f"<Id>{one}</Id>" for one in ids)
    body = f"<eSearchResult><Count>{result['count']}</Count><IdList>{listed}</IdList></eSearchResult>"
    return as_text(f'<?xml version="1.0" encoding="UTF-8" ?>\n{body}', 200, "text/xml; charset=UTF-8")


def _failure(said: str) -> Response:
    """Status 200, and a raw line break inside a JSON string."""
    text = json.dumps({"header": HEADER, "esearchresult": {"ERROR": "@"}}).replace("@", said)
    return Response(200, text.encode(), JSON if "\n" in said else TEXT)


def _whole(asked: dict[str, str], name: str, default: int) -> int:
    text = asked.get(name, str(default))
    return int(text) if text.isdigit() else default


def _days(low: str, high: str) -> tuple[datetime, datetime]:
    try:
        return reach(low)[0], reach(high)[1]
    except NoDate as failure:
        raise Refused(f"Invalid date {failure}") from None
