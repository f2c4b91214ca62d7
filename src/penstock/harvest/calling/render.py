"""From sections and a place in a slice to a request. Pure: the same input gives the same request, now and in a replay.

Order: templates first (they hold what platform, source and endpoint say), then the declared parameters, which override
a template of the same name. Invariant: a request goes to the origin of `baseUrl` and nowhere else, whatever a
parameter or a next link of the source says, because credentials will be added to it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus, urljoin, urlsplit, urlunsplit

from penstock.harvest.calling.request import Request, origin_of
from penstock.harvest.expressions import Template
from penstock.harvest.patterns import PatternUnfit, compile_pattern
from penstock.harvest.slices import Span
from penstock.harvest.spec import RequestParam, Sections
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_LONGEST_CHECKED = 4_096
_LONGEST_URL = 16_384
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
_PLACE = re.compile(r"\{(\w+)\}")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class PageVars:
    """Where in the paging we are. `no` counts from 0; a source that counts from 1 (`base1`) hears one more."""

    no: int | None = None
    offset: int | None = None
    size: int | None = None
    token: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a request depends on besides the sections."""

    now: datetime
    span: Span | None = None
    page: PageVars = PageVars()
    ids: Sequence[str] = ()
    params: Mapping[str, str] = field(default_factory=dict)


def render(sections: Sections, context: Context) -> Request:
    """Raises EXPRESSION_FAILED for whatever must not be sent."""
    return _Rendering(sections, context).request()


def for_count(sections: Sections) -> Sections:
    """The same endpoint, asked for the number of results alone."""
    if sections.count is None:
        return sections
    query = {**sections.http.query_template, **sections.count.query_template}
    return sections.model_copy(update={"http": sections.http.model_copy(update={"query_template": query})})


def public_url(sections: Sections, url: str) -> str:
    """A next link without the credential that some sources echo in it: fit to be stored."""
    auth = sections.auth
    if auth.type == "NONE" or auth.location != "QUERY" or not auth.name:
        return url
    address, _, query = url.partition("#")[0].partition("?")
    kept = [piece for piece in query.split("&") if unquote_plus(piece.partition("=")[0]).lower() != auth.name.lower()]
    return f"{address}?{'&'.join(kept)}" if any(kept) else address


def last_tick(end: datetime, granularity: timedelta) -> datetime:
    """The last moment of the source's clock before `end`. For ends on a tick that is `end - granularity`."""
    since = end - _TICK - _EPOCH
    return end - _TICK - since % granularity if granularity > timedelta(0) else end


class _Rendering:
    def __init__(self, sections: Sections, context: Context) -> None:
        self._sections = sections
        self._http = sections.http
        self._variables = _variables(sections, context)
        self._page_url = context.page.url
        self._ids, self._now = tuple(context.ids), context.now
        self._params = {**sections.params, **context.params}

    def request(self) -> Request:
        declared = self._declared()
        headers = self._texts(self._http.headers_template) | declared["HEADER"]
        for name, value in headers.items():
            _check_header(name, value)
        url, given = self._address(declared["PATH"])
        if self._page_url is not None:
            url, query = self._next_link(url, self._page_url)
        else:
            fields = self._texts(self._http.query_template) | declared["QUERY"]
            query = (*given, *fields.items())
        form, json = self._body(declared["BODY"])
        return Request(self._http.method, url, query, headers, form, json, self._ids, self._now)

    # Where to ------------------------------------------------------------------------------------------------
    def _address(self, places: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
        base = self._base()
        template = self._template(self._http.path_template)
        path = template.render(self._variables, encode=True) or ""
        path = _PLACE.sub(lambda found: self._place(found[1], places), path)
        if any(segment in {".", ".."} for segment in path.split("/")):
            raise _refused(self._http.path_template, "the path would leave its place (. or ..)")
        parts = urlsplit(base)
        whole = f"{parts.path.rstrip('/')}/{path.lstrip('/')}" if path else parts.path
        url = urlunsplit((parts.scheme, parts.netloc, quote(whole, safe=_PATH_SAFE), "", ""))
        self._check_origin(url)
        return url, tuple(parse_qsl(parts.query, keep_blank_values=True))

    def _place(self, name: str, places: dict[str, str]) -> str:
        if name not in places:
            raise _refused(self._http.path_template, f"no PATH parameter is called {name}")
        value = quote(places[name], safe="")
        if value in {"", ".", ".."}:
            raise _refused(name, "this value cannot stand in a path")
        return value

    def _next_link(self, here: str, link: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        if len(link) > _LONGEST_URL or any(ord(letter) <= 32 or ord(letter) == 127 for letter in link):
            raise _refused("page.url", "the source's next link is no address")
        try:
            url = urljoin(here, public_url(self._sections, link))
        except ValueError:
            raise _refused("page.url", "the source's next link is no address") from None
        self._check_origin(url)
        parts = urlsplit(url)
        return urlunsplit((*parts[:3], "", "")), tuple(parse_qsl(parts.query, keep_blank_values=True))

    def _base(self) -> str:
        base = self._http.base_url
        try:
            scheme, _, _ = origin_of(base)
        except ValueError:
            raise _refused("http.baseUrl", "it must be an address, https://…") from None
        if scheme == "http" and not self._http.allow_http:
            raise _refused("http.baseUrl", "http:// needs allowHttp")
        return base

    def _check_origin(self, url: str) -> None:
        try:
            is_same = origin_of(url) == origin_of(self._http.base_url) and "@" not in urlsplit(url).netloc
        except ValueError:
            is_same = False
        if not is_same:
            raise _refused("page.url", "the address leaves the origin of baseUrl: credentials would go astray")

    # What to say ---------------------------------------------------------------------------------------------
    def _texts(self, templates: Mapping[str, str]) -> dict[str, str]:
        found = {name: self._template(text).render(self._variables) for name, text in templates.items()}
        return {name: kept for name, text in found.items() if (kept := self._unless_null(name, text)) is not None}

    def _body(self, declared: dict[str, str]) -> tuple[dict[str, str] | None, dict[str, Any] | None]:
        templates = self._http.body_template
        if self._http.method != "POST" or not (templates or declared):
            return None, None
        if self._http.body_type == "FORM":
            return self._texts(templates) | declared, None
        values = {name: self._template(text).value(self._variables) for name, text in templates.items()}
        kept = {name: self._unless_null(name, value) for name, value in values.items()}
        return None, {name: value for name, value in kept.items() if value is not None} | declared

    def _declared(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {"QUERY": {}, "HEADER": {}, "BODY": {}, "PATH": {}}
        for param in self._sections.mapping.request_params:
            value = self._param(param)
            if value is not None:
                found[param.location][param.name] = value
        return found

    def _param(self, param: RequestParam) -> str | None:
        if param.expr is not None:
            value = self._template(param.expr).render(self._variables)
        else:
            value = self._params.get(param.name)
        value = param.default if value is None else value
        if value is None:
            if param.required:
                raise _refused(param.name, "the parameter is required and has no value")
            return self._unless_null(param.name, None) if param.expr is not None else None
        if param.pattern is not None and not _fits(param.pattern, value):
            raise _refused(param.name, f"its value does not match {param.pattern}")
        return value

    def _unless_null(self, name: str, value: Any) -> Any:
        if value is None and self._sections.expr.null_policy == "fail":
            raise _refused(name, "its value is null")
        return "" if value is None and self._sections.expr.null_policy == "empty" else value

    def _template(self, text: str) -> Template:
        return Template.parse(text, self._sections.expr.allowed_functions, self._sections.expr)


def _variables(sections: Sections, context: Context) -> dict[str, Any]:
    window, page, span = sections.window, context.page, context.span
    ends = {}
    if span is not None:
        to = last_tick(span.end, window.granularity) if window.bounds == "INCLUSIVE" else span.end
        ends = {"from": span.start, "to": to}
    number = page.no if page.no is None or not sections.pagination.base1 else page.no + 1
    return {
        "now": context.now,
        "window": ends,
        "page": {"no": number, "offset": page.offset, "size": page.size, "token": page.token, "url": page.url},
        "ids": list(context.ids),
        "param": {**sections.params, **context.params},
    }


def _fits(pattern: str, value: str) -> bool:
    """The whole value: a pattern is a list of what may be sent, not of what may occur in it."""
    try:
        return len(value) <= _LONGEST_CHECKED and compile_pattern(pattern).fits(value)
    except PatternUnfit as unfit:
        raise _refused(pattern[:200], unfit.said.en) from None


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name) or name.lower() in _NOT_OURS:
        raise _refused(name[:100], "this header cannot be set")
    if not value.isascii() or any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise _refused(name, "a header holds ASCII letters only, and no line breaks")


def _refused(what: str, reason: str) -> PenstockError:
    return PenstockError(error_codes.EXPRESSION_FAILED, template=what, reason=reason)
