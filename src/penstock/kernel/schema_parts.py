"""The parts of a JSON Schema that are schemas themselves."""

from collections.abc import Iterator, Mapping
from typing import Any

Steps = tuple[str | int, ...]
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip


def subschemas(schema: Any) -> Iterator[tuple[Steps, Any]]:
    """Each part that is a schema itself, the whole first. Values under names that are no keywords are not schemas."""
    pending: list[tuple[Steps, Any]] = [((), schema)]
    while pending:
        steps, part = pending.pop()
        yield steps, part
        if isinstance(part, Mapping):
            pending += reversed(list(_direct(part, steps)))


def _direct(part: Mapping[str, Any], steps: Steps) -> Iterator[tuple[Steps, Any]]:
    for name in _MAPS:
        below = part.get(name)
        if isinstance(below, Mapping):
            yield from (((*steps, name, key), each) for key, each in below.items() if isinstance(each, Mapping | bool))
    for name in _LISTS:
        below = part.get(name)
        if isinstance(below, list):
            yield from (((*steps, name, index), each) for index, each in enumerate(below))
    for name in _SINGLES:
        if isinstance(part.get(name), Mapping | bool):
            yield (*steps, name), part[name]


def alone(part: Mapping[str, Any]) -> dict[str, Any]:
    """The part with nothing in its own parts, which are looked at by themselves."""

    def emptied(value: Any) -> Any:
        return {} if isinstance(value, Mapping) else value

    made = dict(part)
    for name in _MAPS:
        if isinstance(part.get(name), Mapping):
            made[name] = {key: emptied(each) for key, each in part[name].items()}
    for name in _LISTS:
        if isinstance(part.get(name), list):
            made[name] = [emptied(each) for each in part[name]]
    for name in _SINGLES:
        if isinstance(part.get(name), Mapping):
            made[name] = {}
    return made
