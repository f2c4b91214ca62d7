"""Schemas that are right by their draft at first sight: each keyword has a value of the kind that both drafts ask for.

The meta-schema of a draft is slow to apply and says the same of almost every schema that people write. Invariant:
what is plain here is right by draft 2020-12 and by draft 7; what is not plain may still be right, and the meta-schema
says whether. Parts below are looked at one by one by the caller.
"""

from collections.abc import Callable, Mapping
from typing import Any

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def is_plain(part: Any) -> bool:
    """Of one part; its own parts count as right if they are objects or truths."""
    if isinstance(part, bool):
        return True
    if not isinstance(part, Mapping):
        return False
    for keyword, value in part.items():
        fits = _KINDS.get(keyword)
        if fits is None:
            if keyword in _OTHER_KEYWORDS:
                return False
        elif not fits(value):
            return False
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_above_zero(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping | bool)


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_map_of_schemas(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_schema, value.values()))


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return _are_names(value) and bool(value) and _TYPES.issuperset(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_anything(_value: Any) -> bool:
    return True


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "$schema": _is_text, "$ref": _is_text, "$comment": _is_text, "title": _is_text, "description": _is_text,
    "format": _is_text, "pattern": _is_text, "contentEncoding": _is_text, "contentMediaType": _is_text,
    "default": _is_anything, "const": _is_anything, "enum": _is_list, "examples": _is_list, "type": _is_type,
    "readOnly": _is_truth, "uniqueItems": _is_truth,
    "multipleOf": _is_above_zero, "maximum": _is_number, "minimum": _is_number,
    "exclusiveMaximum": _is_number, "exclusiveMinimum": _is_number,
    "maxLength": _is_count, "minLength": _is_count, "maxItems": _is_count, "minItems": _is_count,
    "maxProperties": _is_count, "minProperties": _is_count, "required": _are_names,
    "items": _is_schema, "contains": _is_schema, "additionalProperties": _is_schema, "propertyNames": _is_schema,
    "if": _is_schema, "then": _is_schema, "else": _is_schema, "not": _is_schema,
    "allOf": _are_schemas, "anyOf": _are_schemas, "oneOf": _are_schemas,
    "properties": _is_map_of_schemas, "patternProperties": _is_map_of_schemas, "$defs": _is_map_of_schemas,
    "definitions": _is_map_of_schemas,
}  # fmt: skip
_OTHER_KEYWORDS = frozenset({
    "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "id",
    "prefixItems", "dependentSchemas", "dependentRequired", "dependencies", "additionalItems", "maxContains",
    "minContains", "unevaluatedItems", "unevaluatedProperties", "contentSchema", "deprecated", "writeOnly",
})  # fmt: skip
