"""Source files for tests: one that says a bit of everything, and any that the models allow."""

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from penstock.harvest.registry.document import SourceDocument, read_source
from penstock.harvest.spec import OutputField, RequestParam, Sections

WORKS = """\
# yaml-language-server: $schema=../docs/source.schema.json
source: works
name: Works
description: A register of works
defaults:
  http:
    baseUrl: https://api.example.org
  rateLimit: {qps: 3}
credentials:
  key:
    type: API_KEY
    secret: {env: WORKS_KEY}
  client:
    type: OAUTH2
    secret: {file: /run/secrets/works}
    clientId: {store: works-client}
endpoints:
  list:
    default: true
    linkedEndpoint: one
    params: {kind: article}
    defaults:
      retry: {maxAttempts: 3}
    http:
      pathTemplate: /works
      queryTemplate: {rows: 100, cursor: "${page.token}"}
    auth: {type: API_KEY, name: X-Key, credentialRef: key}
    pagination: {type: TOKEN, pageSize: 1000, initialToken: "*", nextTokenPath: $.next}
    window: {supportsUpdatedSince: true, safetyLag: 30m, earliest: 2020-01-01}
    retry: {longest: 1m}
    rateLimit: {burst: 2}
    batching: {idBatchSize: 50, twoPhase: {enabled: true}}
    expr: {allowedFunctions: [formatDateTime], nullPolicy: fail}
    response: {itemsPath: "$.items", idPath: [$.a, $.b], updatedAtPath: $.updated, totalPath: null}
    mapping:
      requestParams:
        - {name: q, expr: "${param.q}", pattern: "[a-z]+"}
        - {name: a, location: HEADER, required: true, default: x}
      outputFields:
        - {name: title, expr: $.title, required: true}
        - {name: author, expr: $.author}
      sink: true
    count: {}
    planning: {cMax: 2, priorities: {HARVEST: 10}}
  one:
    role: DETAIL
    mapping: {requestParams: []}
    expr: {allowedFunctions: []}
schedules:
  - {operation: HARVEST, every: 10m}
  - {operation: UPDATE, endpoint: one, cron: "30 2 * * *", params: {a: b}}
"""


# The same, such that it compiles: the file above shows every key, whether they fit together or not.
FITTING = (
    WORKS.replace('cursor: "${page.token}"}', 'cursor: "${page.token}", since: "${window.from}"}')
    .replace("window: {supportsUpdatedSince: true,", "window: {supportsUpdatedSince: true, watermarkKey: updated_at,")
    .replace(
        "    mapping: {requestParams: []}\n    expr: {allowedFunctions: []}\n",
        "    http: {pathTemplate: /works, queryTemplate: {ids: '${join(ids, \",\")}'}}\n"
        "    response: {itemsPath: $.items, idPath: $.id, updatedAtPath: $.updated}\n"
        "    expr: {allowedFunctions: [join]}\n",
    )
)


def works(*changes: tuple[str, str]) -> SourceDocument:
    """The file above with some of its text replaced."""
    text = WORKS
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return read_source(text.encode(), "sources/works.yaml")


_WORDS = st.text("abc XYZ09_-$.{}[]'\"#:%&*!|>é中文🙂", max_size=12)
_NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True).filter(lambda name: len(name) < 6)
_CANDIDATES: dict[Any, list[Any]] = {
    bool: [True, False],
    int: [0, 1, 7, 20],
    float: [0.25, 0.5, 1.5, 3, 1e-7],
    timedelta: ["PT0S", "10m", "P1DT2H", "250ms", "1w"],
    datetime: ["2020-01-01", "2024-02-29T12:00:00.5+08:00"],
}


def _of_type(kind: Any, metadata: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:  # noqa: PLR0911  one for each kind
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _group(kind)
    if kind is str:
        return _WORDS
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is Annotated:
        return _of_type(inner[0], (*kind.__metadata__, *metadata))
    if origin is dict:
        keys = st.sampled_from([str(each) for each in inner[0]]) if inner[0] is not str else _WORDS
        return st.dictionaries(keys, _of_type(inner[1]), max_size=3)
    if origin is tuple:
        return _elements(inner[0])
    if origin is not None:  # a union
        return st.one_of(*(st.none() if each is type(None) else _of_type(each, metadata) for each in inner))
    return st.sampled_from(_allowed(kind, metadata))


def _allowed(kind: Any, metadata: tuple[Any, ...]) -> list[Any]:
    adapter = TypeAdapter(Annotated[kind, *metadata] if metadata else kind)
    allowed = []
    for value in _CANDIDATES.get(kind) or [each.value for each in kind]:
        try:
            adapter.validate_python(value)
        except ValidationError:
            continue
        allowed.append(value)
    assert allowed, (kind, metadata)
    return allowed


def _elements(kind: Any) -> st.SearchStrategy[Any]:
    if kind not in (RequestParam, OutputField):
        return st.lists(_of_type(kind), max_size=3)
    whole = st.tuples(_WORDS, _WORDS, _group(kind)).map(lambda it: {**it[2], "name": it[0], "expr": it[1]})
    return st.lists(whole, max_size=3, unique_by=lambda each: each["name"])


def _group(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {info.alias: _of_type(info.annotation, tuple(info.metadata)) for info in model.model_fields.values()}
    return st.fixed_dictionaries({}, optional=fields)


_SECTIONS = _group(Sections)
_PLACE = st.one_of(
    st.just({"env": "A_NAME"}), _NAMES.map(lambda name: {"file": name}), _NAMES.map(lambda name: {"store": name})
)
_CREDENTIAL = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["API_KEY", "BEARER", "CUSTOM"]), "secret": _PLACE}),
    st.fixed_dictionaries({"type": st.just("OAUTH2"), "secret": _PLACE, "clientId": _PLACE}),
)
_ENDPOINT = st.builds(
    lambda sections, own: sections | own,
    _SECTIONS,
    st.fixed_dictionaries(
        {}, optional={"role": st.sampled_from(["SEARCH", "DETAIL", "METRICS"]), "defaults": _SECTIONS}
    ),
)


@st.composite
def documents(draw: st.DrawFn, source: str = "any") -> SourceDocument:
    """Read from a file's bytes, as every document is."""
    endpoints = draw(st.dictionaries(_NAMES, _ENDPOINT, min_size=1, max_size=2))
    names = sorted(endpoints)
    if draw(st.booleans()):
        endpoints[names[0]]["default"] = True
    when = st.one_of(
        st.sampled_from(["10m", "P1D", "90s"]).map(lambda every: {"every": every}), st.just({"cron": "5 4 * * 1"})
    )
    planned = draw(
        st.lists(
            st.tuples(st.sampled_from(names), st.sampled_from(["HARVEST", "BACKFILL", "UPDATE"])),
            unique=True,
            max_size=3,
        )
    )
    written = {
        "source": source,
        "name": draw(_WORDS.filter(bool)),
        "description": draw(_WORDS),
        "defaults": draw(_SECTIONS),
        "credentials": draw(st.dictionaries(_NAMES, _CREDENTIAL, max_size=2)),
        "endpoints": endpoints,
        "schedules": [{"endpoint": name, "operation": operation, **draw(when)} for name, operation in planned],
    }
    return read_source(json.dumps(written, ensure_ascii=False).encode(), f"{source}.yaml")
