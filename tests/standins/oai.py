"""OAI-PMH with oai_dc: resumption tokens that stand alone and expire, deleted records, errors inside a 200.

A caller that is too fast hears 503 with Retry-After, as the protocol asks. The last page of a list that took several
carries an empty token; a list that fits into one page carries none.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from tests.standins.library import SUBJECTS, Entry
from tests.standins.limits import Stretch
from tests.standins.standin import Standin
from tests.standins.times import FOREVER, NoDate, reach, seconds_text
from tests.standins.tokens import DeadToken, Tokens
from tests.standins.wire import Request, Response, as_text

XML = "text/xml; charset=utf-8"
SECONDS, DAYS = "YYYY-MM-DDThh:mm:ssZ", "YYYY-MM-DD"
PREFIX = "oai:standin.example:"
DC = 'xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
ARGUMENTS = {
    "Identify": set(),
    "ListMetadataFormats": {"identifier"},
    "ListSets": {"resumptionToken"},
    "ListIdentifiers": {"from", "until", "metadataPrefix", "set", "resumptionToken"},
    "ListRecords": {"from", "until", "metadataPrefix", "set", "resumptionToken"},
    "GetRecord": {"identifier", "metadataPrefix"},
}


class Refused(Exception):
    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


class Oai(Standin):
    name = "oai"
    keeps_deleted = True
    page_size = 100
    token_ttl = 86_400.0
    granularity = SECONDS

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.tokens = Tokens(self.token_ttl, self.moment)
        self._limit = Stretch(5)

    def id_of(self, number: int) -> str:
        return f"{PREFIX}{number + 1}"

    def number_of(self, provider_id: str) -> int | None:
        digits = provider_id.removeprefix(PREFIX)
        return int(digits) - 1 if digits.isdigit() and digits != provider_id else None

    def admits(self, request: Request) -> bool:
        return self._limit.admits(self.moment())

    def too_many(self, request: Request) -> Response:
        response = as_text("Slow down", 503)
        response.headers["Retry-After"] = "1"
        return response

    def answer(self, request: Request) -> Response:
        if request.path.rstrip("/") != "/oai":
            return as_text("Not Found", 404)
        asked = request.form
        verb = asked.get("verb", "")
        key = None
        try:
            inner, key = self._verb(verb, asked)
            said = "".join(f' {name}="{escape(value)}"' for name, value in asked.items())
        except Refused as refusal:
            inner = f'<error code="{refusal.code}">{escape(str(refusal))}</error>'.encode()
            said = "" if refusal.code in ("badVerb", "badArgument") else f' verb="{verb}"'
        head = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
            f"<responseDate>{seconds_text(datetime.now(UTC))}</responseDate><request{said}>{self.url}/oai</request>\n"
        )
        return Response(200, head.encode() + inner + b"</OAI-PMH>\n", XML, page_key=key)

    def _verb(self, verb: str, asked: dict[str, str]) -> tuple[bytes, str | None]:
        if verb not in ARGUMENTS:
            raise Refused("badVerb", f"{verb or 'no verb'} is not a verb of this protocol")
        given = set(asked) - {"verb"}
        if surplus := given - ARGUMENTS[verb]:
            raise Refused("badArgument", f"not allowed here: {', '.join(sorted(surplus))}")
        if verb in ("ListRecords", "ListIdentifiers"):
            if "resumptionToken" in given and len(given) > 1:
                raise Refused("badArgument", "resumptionToken is an exclusive argument")
            return self._list(verb, asked)
        if verb == "GetRecord":
            return self._record(asked), None
        return self._about(verb).encode(), None

    def _about(self, verb: str) -> str:
        if verb == "ListSets":
            sets = "".join(f"<set><setSpec>{name}</setSpec><setName>{name}</setName></set>" for name in SUBJECTS)
            return f"<ListSets>{sets}</ListSets>"
        if verb == "ListMetadataFormats":
            return (
                "<ListMetadataFormats><metadataFormat><metadataPrefix>oai_dc</metadataPrefix>"
                "<schema>http://www.openarchives.org/OAI/2.0/oai_dc.xsd</schema>"
                "<metadataNamespace>http://www.openarchives.org/OAI/2.0/oai_dc/</metadataNamespace>"
                "</metadataFormat></ListMetadataFormats>"
            )
        return (
            f"<Identify><repositoryName>Stand-in</repositoryName><baseURL>{self.url}/oai</baseURL>"
            "<protocolVersion>2.0</protocolVersion><adminEmail>nobody@example.org</adminEmail>"
            f"<earliestDatestamp>{self._stamp(self.library.start)}</earliestDatestamp>"
            f"<deletedRecord>persistent</deletedRecord><granularity>{self.granularity}</granularity></Identify>"
        )

    def _record(self, asked: dict[str, str]) -> bytes:
        if {"identifier", "metadataPrefix"} - set(asked):
            raise Refused("badArgument", "identifier and metadataPrefix are required")
        _known_format(asked["metadataPrefix"])
        entry = self.held(asked["identifier"])
        if entry is None:
            raise Refused("idDoesNotExist", f"{asked['identifier']} is not known here")
        return b"<GetRecord>" + self.encoded(entry) + b"</GetRecord>"

    def _list(self, verb: str, asked: dict[str, str]) -> tuple[bytes, str]:
        start, cursor = 0, 0
        if token := asked.get("resumptionToken"):
            try:
                state = self.tokens.read(token)
            except DeadToken:
                raise Refused("badResumptionToken", "the token is not valid or has expired") from None
            asked, cursor = state["asked"], state["cursor"]
        if "metadataPrefix" not in asked:
            raise Refused("badArgument", "metadataPrefix is required")
        _known_format(asked["metadataPrefix"])
        entries = self._found(asked)
        if token:
            start = self.after(entries, datetime.fromisoformat(state["stamp"]), state["number"])
        page = self.cut(entries, start, self.page_size)
        if not page.items and not token:
            raise Refused("noRecordsMatch", "nothing in this window")
        items = [self._header(entry) if verb == "ListIdentifiers" else self.encoded(entry) for entry in page.items]
        more = page.last is not None and page.next_start < len(entries)
        last = self._token(asked, page.last, page.total, cursor) if more else self._empty(token, page.total, cursor)
        key = "|".join((verb, asked.get("set", ""), asked.get("from", ""), asked.get("until", ""), str(start)))
        return f"<{verb}>".encode() + b"".join(items) + last.encode() + f"</{verb}>".encode(), key

    def _token(self, asked: dict[str, str], last: Entry | None, total: int, cursor: int) -> str:
        assert last is not None
        state = {"asked": asked, "stamp": last.updated, "number": last.number, "cursor": cursor + self.page_size}
        token = self.tokens.make(**state)
        ends = seconds_text(datetime.fromtimestamp(datetime.now(UTC).timestamp() + self.token_ttl, UTC))
        return (
            f'<resumptionToken completeListSize="{total}" cursor="{cursor}" expirationDate="{ends}">'
            f"{token}</resumptionToken>"
        )

    def _empty(self, token: str | None, total: int, cursor: int) -> str:
        return f'<resumptionToken completeListSize="{total}" cursor="{cursor}"/>' if token else ""

    def _found(self, asked: dict[str, str]) -> Sequence[Entry]:
        bounds = [asked[name] for name in ("from", "until") if name in asked]
        if len({len(bound) for bound in bounds}) > 1:
            raise Refused("badArgument", "from and until must have the same granularity")
        if any(len(bound) not in ((10,) if self.granularity == DAYS else (10, 20)) for bound in bounds):
            raise Refused("badArgument", f"dates must be written as {self.granularity}")
        try:
            first = reach(asked["from"])[0] if "from" in asked else FOREVER[0]
            end = reach(asked["until"])[1] if "until" in asked else FOREVER[1]
        except NoDate as failure:
            raise Refused("badArgument", f"{failure} is no date") from None
        if first >= end:
            raise Refused("badArgument", "from lies after until")
        if asked.get("set", SUBJECTS[0]) not in SUBJECTS:
            raise Refused("noRecordsMatch", "there is no such set")
        return self.window("updated", first, end, asked.get("set", ""))

    def _stamp(self, instant: datetime) -> str:
        return seconds_text(instant) if self.granularity == SECONDS else f"{instant:%Y-%m-%d}"

    def _header(self, entry: Entry) -> bytes:
        status = ' status="deleted"' if entry.is_deleted else ""
        return (
            f"<header{status}><identifier>{self.id_of(entry.number)}</identifier>"
            f"<datestamp>{self._stamp(entry.updated)}</datestamp><setSpec>{entry.subject}</setSpec></header>"
        ).encode()

    def encode(self, entry: Entry) -> bytes:
        if entry.is_deleted:
            return b"<record>" + self._header(entry) + b"</record>\n"
        text = (
            f"<metadata><oai_dc:dc {DC}><dc:title>Stand-in record {entry.number} &amp; more, revision "
            f"{entry.version}</dc:title><dc:creator>Rivera, Ana B</dc:creator>"
            f"<dc:identifier>https://doi.org/10.5555/standin.{entry.number:07d}</dc:identifier>"
            f"<dc:subject>{entry.subject}</dc:subject><dc:description>{escape(self.filler(entry))}</dc:description>"
            "</oai_dc:dc></metadata></record>\n"
        )
        return b"<record>" + self._header(entry) + text.encode()


def _known_format(prefix: str) -> None:
    if prefix != "oai_dc":
        raise Refused("cannotDisseminateFormat", f"{prefix} is not offered; oai_dc is")
