"""The text of a first source file, made of a guess and the address that was asked. Pure.

Invariant: nothing that looks like a key is copied from the address into the file.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from penstock.cli.harvest.guessing import OAI, Guess
from penstock.kernel.telemetry.patterns import is_secret_name

_SIZE = re.compile(r"^(page_?-?size|per_?page|rows|limit|size|max_?results|retmax|count|n)$", re.IGNORECASE)
_PAGE = re.compile(r"^(page|p|page_?no|page_?number)$", re.IGNORECASE)
_OFFSET = re.compile(r"^(offset|start|skip|retstart|first)$", re.IGNORECASE)
_TOKEN = re.compile(r"^(.*cursor.*|.*token.*|after|continue)$", re.IGNORECASE)
_SINCE = re.compile(r"^(since|from|.*(updated|modified).*(since|after|from)|from[-_].*|min_?date)$", re.IGNORECASE)
_UNTIL = re.compile(r"^(until|to|.*(updated|modified).*(until|before|to)|until[-_].*|max_?date)$", re.IGNORECASE)
_KEY = re.compile(r"key|secret|passw|signature", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """The address, taken apart: what each of its parameters seems to be for."""

    base: str
    path: str
    query: dict[str, str]  # name → template
    paging: str | None  # PAGE, OFFSET, TOKEN by a parameter's name
    size: int | None
    initial_token: str | None
    page_base: int | None
    has_since: bool
    keys: tuple[str, ...]  # left out


def take_apart(url: str) -> Asked:
    parts = urlsplit(url)
    query: dict[str, str] = {}
    paging = size = token = base = None
    has_since, keys = False, []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if _SIZE.match(name) and value.isdigit():
            query[name], size = "${page.size}", max(1, int(value))
        elif _PAGE.match(name) and value.isdigit():
            query[name], paging, base = "${page.no}", "PAGE", int(value)
        elif _OFFSET.match(name) and value.isdigit():
            query[name], paging = "${page.offset}", "OFFSET"
        elif _TOKEN.match(name) and not _KEY.search(name) and not is_secret_name(name):
            query[name], paging, token = "${page.token}", "TOKEN", value or None
        elif is_secret_name(name) or _KEY.search(name):
            keys.append(name)
        elif _SINCE.match(name) and value[:4].isdigit():
            query[name], has_since = _time("window.from", value), True
        elif _UNTIL.match(name) and value[:4].isdigit():
            query[name] = _time("window.to", value)
        else:
            query[name] = value.replace("${", "$ {")
    if "resumptionToken" in query:
        query["resumptionToken"] = "${page.token}"
    return Asked(
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.replace("${", "$ {"), query, paging, size,
        token, base, has_since, tuple(keys),
    )  # fmt: skip


def _time(name: str, example: str) -> str:
    """As precise as the example in the address."""
    return f'${{formatDateTime({name}, "%Y-%m-%d")}}' if len(example) <= 10 else f"${{{name}}}"


def code_of(url: str) -> str:
    host = urlsplit(url).hostname or ""
    words = [word for word in host.split(".") if word not in {"api", "www", "export", "rest"} and not word.isdigit()]
    name = re.sub(r"[^a-z0-9_-]", "", words[0].lower()) if words else ""
    return name if re.match(r"[a-z]", name) else "my_source"


def oai_file(url: str, code: str, granularity: str | None) -> str:
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    by_day = granularity == "YYYY-MM-DD"
    form = "%Y-%m-%d" if by_day else "%Y-%m-%dT%H:%M:%SZ"
    steps = "granularity: 1d\n      align: day" if by_day else "granularity: 1s\n      align: min"
    lines = [
        *_head(code, base, []),
        "  params: {prefix: oai_dc}   # TODO: the metadata wanted; ListMetadataFormats lists them",
        "  response:",
        "    format: XML",
        f"    namespaces: {{o: {OAI}}}",
        "    itemsPath: /o:OAI-PMH/*/o:record",
        "    idPath: o:header/o:identifier",
        "    updatedAtPath: o:header/o:datestamp",
        "    deletedPath: o:header/@status",
        "    deletedValue: deleted",
        "    onEqual: REPLACE",
        "    errorPath: /o:OAI-PMH/o:error",
        "    emptyErrors: [noRecordsMatch]",
        "endpoints:",
        "  records:",
        "    default: true",
        "    http:",
        "      queryTemplate:",
        "        verb: ListRecords",
        '        metadataPrefix: "${page.token == null ? param.prefix : null}"',
        f"        from: '${{page.token == null ? formatDateTime(window.from, \"{form}\") : null}}'",
        f"        until: '${{page.token == null ? formatDateTime(window.to, \"{form}\") : null}}'",
        '        resumptionToken: "${page.token}"',
        "    pagination: {type: TOKEN, nextTokenPath: /o:OAI-PMH/*/o:resumptionToken, shortPageEnds: false}",
        "    window:",
        "      supportsUpdatedSince: true",
        "      watermarkKey: datestamp",
        "      bounds: INCLUSIVE",
        f"      {steps}",
        f"      safetyLag: {'1d' if by_day else '1h'}   # TODO: how late may a record appear?",
        "      overlap: 1h" if not by_day else "      overlap: 1d",
    ]
    return "\n".join(lines) + "\n"


def first_file(url: str, code: str, guess: Guess) -> str:
    asked = take_apart(url)
    lines = [
        *_head(code, asked.base, asked.keys),
        "endpoints:",
        "  items:   # TODO: a better name",
        "    default: true",
        "    http:",
        f"      pathTemplate: {_quoted(asked.path)}",
        *_query(asked, guess),
        *_paging(asked, guess),
        *_window(asked),
        "    response:",
        f"      format: {guess.format}",
        *([f"      namespaces: {json.dumps(guess.namespaces)}"] if guess.namespaces else []),
        _path("itemsPath", guess.items, "where is the list of items?"),
        _path("idPath", guess.id, "what names an item, for ever?"),
        *_updated(guess),
        *([f"      totalPath: {_quoted(guess.total)}"] if guess.total else []),
    ]
    return "\n".join(lines) + "\n"


def _head(code: str, base: str, keys: Sequence[str]) -> list[str]:
    allow = "\n    allowHttp: true" if base.startswith("http://") else ""
    return [
        "# A first draft, guessed from one answer. Go through the TODOs, then `penstock harvest apply FILE --dry-run`.",
        f"source: {code}",
        f"name: {code}   # TODO: as people know it",
        *(
            [f"# TODO: {', '.join(keys)} looks like a key and was left out: see `credentials` and `auth`."]
            if keys
            else []
        ),
        "defaults:",
        "  http:",
        f"    baseUrl: {_quoted(base)}{allow}",
        "  rateLimit: {qps: 1, concurrency: 1}   # TODO: what does the provider allow?",
    ]


def _paging_type(asked: Asked, guess: Guess) -> str | None:
    if guess.next_url:
        return "URL"
    if guess.next_token:
        return "TOKEN"
    return asked.paging if asked.paging != "TOKEN" else None


def _query(asked: Asked, guess: Guess) -> list[str]:
    query = dict(asked.query)
    notes: dict[str, str] = {}
    kind = _paging_type(asked, guess)
    if kind == "TOKEN" and "${page.token}" not in query.values():
        query["cursor"], notes["cursor"] = "${page.token}", "   # TODO: the parameter that takes the token"
    if kind is None:
        query.setdefault("page", "${page.no}")
        notes["page"] = "   # TODO: how is the next page asked for?"
    if not query:
        return []
    return [
        "      queryTemplate:",
        *(f"        {json.dumps(n)}: {_quoted(v)}{notes.get(n, '')}" for n, v in query.items()),
    ]


def _paging(asked: Asked, guess: Guess) -> list[str]:
    kind = _paging_type(asked, guess)
    size = asked.size or guess.count or 100
    lines = ["    pagination:", f"      type: {kind or 'PAGE'}" + ("" if kind else "   # TODO: a guess")]
    lines.append(f"      pageSize: {size}" + ("" if asked.size else "   # TODO: as many as this answer had"))
    if kind == "TOKEN":
        lines.append(f"      nextTokenPath: {_quoted(guess.next_token or '')}")
        if asked.initial_token:
            lines.append(f"      initialToken: {_quoted(asked.initial_token)}")
    if kind == "URL":
        lines.append(f"      nextUrlPath: {_quoted(guess.next_url or '')}")
    if kind in (None, "PAGE"):
        is_first = asked.page_base if asked.page_base is not None else 1
        lines.append(f"      base1: {'true' if is_first else 'false'}   # TODO: is the first page 1?")
    return lines


def _window(asked: Asked) -> list[str]:
    if not asked.has_since:
        return [
            "    # TODO: can it be asked by time? Then use ${window.from} and ${window.to} above, and:",
            "    # window: {supportsUpdatedSince: true, watermarkKey: updated_at}",
            "    # If not, but its order is stable: orderBy above, and window: {clientFilter: true, monotonic: true}",
        ]
    return [
        "    window:",
        "      supportsUpdatedSince: true",
        "      watermarkKey: updated_at",
        "      bounds: INCLUSIVE   # TODO: does the upper bound belong to the answer?",
        "      safetyLag: 1h   # TODO: how late may a record appear?",
    ]


def _updated(guess: Guess) -> list[str]:
    if guess.updated:
        return [f"      updatedAtPath: {_quoted(guess.updated)}"]
    return ["      updatedAtFrom: WINDOW   # TODO: no time of change was found; updatedAtPath names one"]


def _path(key: str, path: str | None, question: str) -> str:
    return f"      {key}: {_quoted(path)}" if path else f"      # TODO {key}: {question}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
