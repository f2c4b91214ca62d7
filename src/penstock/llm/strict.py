"""A rule's schema in the strict subset that endpoints enforce, and the way back from what they answer.

Strict wants every object closed and every property required; what may be absent may be null there instead, and is left
out again afterwards. Limits such as `maximum` or `pattern` are not sent. Invariant: the answer is always checked
against the rule's own schema; the subset only makes it likelier to fit.
"""

import re
from collections.abc import Mapping
from typing import Any

_CANNOT = frozenset(
    {
        "allOf", "not", "if", "then", "else", "patternProperties", "propertyNames", "dependentSchemas", "contains",
        "dependentRequired", "dependencies", "prefixItems", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef",
    }
)  # fmt: skip
_DEFINITIONS = ("$defs", "definitions")
_LOCAL = re.compile(r"#/(?:\$defs|definitions)/[^/]+")
_MOST_NESTED = 50
_MOST_REFERENCES = 16  # one after another
_MOST_CHOICES = 3  # inside of each other


class _Open(Exception):
    """The schema leaves open what strict would have to close."""


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """None: the schema says more than the subset can."""
    try:
        form = _converted(schema, 0)
        for name in _DEFINITIONS:
            if isinstance(schema.get(name), dict):
                form[name] = {key: _converted(inner, 0) for key, inner in schema[name].items()}
    except _Open:
        return None
    return form if form.get("type") == "object" else None


def is_object(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("type", "object" if "properties" in schema else None) == "object")


def wrapped(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """As the property `value` of an object, because endpoints answer with objects only; None: it refers to itself."""
    if not _refers_to_definitions_only(schema, 0):
        return None
    inner = {name: part for name, part in schema.items() if name not in {*_DEFINITIONS, "$schema", "$id"}}
    outer = {name: schema[name] for name in _DEFINITIONS if name in schema}
    closed = {"type": "object", "properties": {"value": inner}, "required": ["value"], "additionalProperties": False}
    return closed | outer


def without_padding(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """Leaves out each null that stands for an absent property. Looks at the schema only, once for each part."""
    schema = _chosen(value, _resolved(schema, root), root)
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, dict):
        properties, required = schema.get("properties", {}), schema.get("required", ())
        return {
            name: without_padding(inner, properties.get(name), root)
            for name, inner in value.items()
            if inner is not None or name in required or name not in properties or _takes_null(properties[name], root)
        }
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [without_padding(inner, schema["items"], root) for inner in value]
    return value


def _chosen(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """Of several branches, the one that was answered: in the strict form an object has exactly its branch's names."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping) or not (branches := schema.get("anyOf") or schema.get("oneOf")):
            return schema
        resolved = [_resolved(branch, root) for branch in branches]
        schema = next((branch for branch in resolved if _is_answered(value, branch)), None)
    return None


def _is_answered(value: Any, branch: Any) -> bool:
    if not isinstance(branch, Mapping):
        return False
    if "anyOf" in branch or "oneOf" in branch:
        return True
    if isinstance(value, dict):
        properties = branch.get("properties", {})
        return is_object(branch) and properties.keys() == value.keys() and _names_fit(value, properties)
    return isinstance(value, list) and "items" in branch


def _names_fit(value: Mapping[str, Any], properties: Mapping[str, Any]) -> bool:
    """Branches with the same names are told apart by their constants."""
    for name, schema in properties.items():
        if isinstance(schema, Mapping) and ("const" in schema or "enum" in schema):
            allowed = schema.get("enum", [schema.get("const")])
            if value[name] is not None and value[name] not in allowed:
                return False
    return True


def _takes_null(schema: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    schema = _resolved(schema, root)
    if not isinstance(schema, Mapping) or depth > _MOST_CHOICES:
        return schema is not False
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return any(_takes_null(branch, root, depth + 1) for branch in branches)
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const")])
    kind = schema.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def _converted(node: Any, depth: int) -> dict[str, Any]:
    if not isinstance(node, Mapping) or depth > _MOST_NESTED or _CANNOT & node.keys():
        raise _Open
    if "$ref" in node:
        if not isinstance(node["$ref"], str) or not _LOCAL.fullmatch(node["$ref"]):
            raise _Open
        return {"$ref": node["$ref"]}
    form: dict[str, Any] = {}
    if isinstance(node.get("description"), str):
        form["description"] = node["description"]
    if branches := node.get("anyOf") or node.get("oneOf"):
        return form | {"anyOf": [_converted(branch, depth + 1) for branch in branches]}
    return form | _typed(node, depth)


def _typed(node: Mapping[str, Any], depth: int) -> dict[str, Any]:
    form: dict[str, Any] = {}
    kind = node.get("type", "object" if "properties" in node else "array" if "items" in node else None)
    if kind is not None:
        form["type"] = kind
    if "enum" in node or "const" in node:
        form["enum"] = list(node.get("enum", [node.get("const")]))
    elif kind is None:
        raise _Open
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds:
        form |= _closed(node, depth)
    if "array" in kinds:
        form["items"] = _converted(node.get("items"), depth + 1)
    return form


def _closed(node: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = node.get("properties")
    if not isinstance(properties, Mapping) or not properties or node.get("additionalProperties", False) is not False:
        raise _Open
    required = node.get("required", ())
    forms = {}
    for name, inner in properties.items():
        form = _converted(inner, depth + 1)
        forms[name] = form if name in required else _or_null(form)
    return {"properties": forms, "required": list(forms), "additionalProperties": False}


def _or_null(form: dict[str, Any]) -> dict[str, Any]:
    kind = form.get("type")
    if kind is None or "anyOf" in form or "$ref" in form:
        if "anyOf" in form:
            return form | {"anyOf": [*form["anyOf"], {"type": "null"}]}
        return {"anyOf": [form, {"type": "null"}]}
    kinds = kind if isinstance(kind, list) else [kind]
    nullable = form | {"type": kinds if "null" in kinds else [*kinds, "null"]}
    if "enum" in form and None not in form["enum"]:
        nullable["enum"] = [*form["enum"], None]
    return nullable


def _refers_to_definitions_only(node: Any, depth: int) -> bool:
    if depth > _MOST_NESTED:
        return False
    if isinstance(node, Mapping):
        reference = node.get("$ref")
        if isinstance(reference, str) and not _LOCAL.match(reference):
            return False
        return all(_refers_to_definitions_only(inner, depth + 1) for inner in node.values())
    return not isinstance(node, list) or all(_refers_to_definitions_only(inner, depth + 1) for inner in node)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """A reference into the same schema is followed; any other leads to None, and what it describes is left as it is."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        schema = _at(schema["$ref"], root)
    return None


def _at(reference: Any, root: Mapping[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found
