"""A schema for a part of a document: nothing is required, anything may be unknown.

`relaxed` is what a chunk is asked by; `without_unknowns` takes the nulls out again that the whole schema has no room
for. What is left is checked by the whole schema.
"""

from collections.abc import Mapping
from typing import Any

from penstock.extraction.schemas import errors_of
from penstock.kernel import json

_ALL = 1_000_000
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = ("items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
_DROPPED = frozenset({
    "required", "minItems", "minProperties", "contains", "minContains", "maxContains", "dependentRequired",
    "dependentSchemas", "dependencies", "if", "then", "else", "not", "default",
})  # fmt: skip


def relaxed(schema: Any) -> Any:
    """Of the whole; the names of its properties are not touched."""
    if not isinstance(schema, Mapping):
        return schema
    made = {key: value for key, value in schema.items() if key not in _DROPPED}
    for name in _MAPS:
        if isinstance(made.get(name), Mapping):
            made[name] = {key: relaxed(each) for key, each in made[name].items()}
    for name in _LISTS:
        if isinstance(made.get(name), list):
            made[name] = [relaxed(each) for each in made[name]]
    for name in _SINGLES:
        if isinstance(made.get(name), Mapping):
            made[name] = relaxed(made[name])
    if "properties" in made:
        made["properties"] = {key: _or_null(each) for key, each in made["properties"].items()}
    return made


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or not schema:
        return schema
    kinds = schema.get("type")
    plain = isinstance(kinds, str | list) and "const" not in schema
    if not plain:
        return {"anyOf": [schema, {"type": "null"}]}
    listed = [kinds] if isinstance(kinds, str) else list(kinds or ())
    made = {**schema, "type": listed if "null" in listed else [*listed, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        made["enum"] = [*schema["enum"], None]
    return made


def without_unknowns(schema: Mapping[str, Any], data: Any) -> Any:
    """A copy without the nulls that do not fit. Only members of objects are taken out: a null in a list is told."""
    made = json.loads(json.dumps(data))
    for error in errors_of(schema, made, limit=_ALL):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in error["path"].split("/")[1:]]
        owner = made
        for step in steps[:-1]:
            owner = owner[int(step)] if isinstance(owner, list) else owner.get(step)
            if not isinstance(owner, dict | list):
                break
        if steps and isinstance(owner, dict) and owner.get(steps[-1], 0) is None:
            del owner[steps[-1]]
    return made
