"""The one way to write a document: what says nothing is left out, what lists and schedules leave unsaid is said."""

from typing import Any

SECTIONS = (
    "http", "auth", "pagination", "window", "retry", "rateLimit", "batching", "expr", "response", "mapping", "count",
    "planning", "params",
)  # fmt: skip
_Json = dict[str, Any]


def canonical_document(given: _Json) -> _Json:
    endpoints = {name: _endpoint(each) for name, each in given["endpoints"].items()}
    default = default_endpoint(endpoints)
    schedules = [_schedule(each, default) for each in given.get("schedules", ())]
    return {
        "source": given["source"],
        "name": given["name"],
        "description": given.get("description", ""),
        "defaults": _sections(given.get("defaults")),
        "credentials": {
            name: {key: _without_nulls(value) if isinstance(value, dict) else value for key, value in each.items()
                   if value is not None}
            for name, each in given.get("credentials", {}).items()
        },
        "endpoints": endpoints,
        "schedules": sorted(schedules, key=lambda each: (each["endpoint"], each["operation"])),
    }  # fmt: skip


def default_endpoint(endpoints: _Json) -> str | None:
    """The one that says so, or the only one, or the only one to search."""
    chosen = [name for name, each in endpoints.items() if each.get("default")]
    searching = [name for name, each in endpoints.items() if each.get("role", "SEARCH") == "SEARCH"]
    for names in (chosen, list(endpoints), searching):
        if len(names) == 1:
            return str(names[0])
    return None


def _endpoint(given: _Json) -> _Json:
    made: _Json = {"role": given.get("role", "SEARCH")}
    if defaults := _sections(given.get("defaults")):
        made["defaults"] = defaults
    if given.get("default"):
        made["default"] = True
    if given.get("linkedEndpoint"):
        made["linkedEndpoint"] = given["linkedEndpoint"]
    return made | _sections({key: value for key, value in given.items() if key in SECTIONS})


def _sections(given: _Json | None) -> _Json:
    """Empty ones say nothing; only `count: {}` does: that numbers of results can be asked for."""
    kept = {key: value for key, value in (given or {}).items() if value != {} or key == "count"}
    if mapping := kept.get("mapping"):
        kept["mapping"] = mapping | {
            key: [_element(key, each) for each in mapping[key]]
            for key in ("requestParams", "outputFields") if key in mapping
        }  # fmt: skip
    return kept


def _element(kind: str, given: _Json) -> _Json:
    unsaid = {"location": "QUERY", "required": False} if kind == "requestParams" else {"required": False}
    return unsaid | _without_nulls(given)


def _schedule(given: _Json, default: str | None) -> _Json:
    return {"endpoint": default, "params": {}} | _without_nulls(given)


def _without_nulls(given: _Json) -> _Json:
    return {key: value for key, value in given.items() if value is not None}
