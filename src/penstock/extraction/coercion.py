"""Text from a page as the kind of value that a schema asks for. None where it cannot be that."""

from collections.abc import Mapping
from typing import Any

from penstock.extraction.field_map import kind_of
from penstock.extraction.spelling import Order, date_of, fold, moment_of, number_of, truth_of
from penstock.kernel.step_budget import spend

_UNKNOWN = {"", "-", "--", "—", "/", "n/a", "na", "none", "null", "无", "空"}


def coerced(text: str, schema: Mapping[str, Any], order: Order | None = None) -> Any | None:
    """`order`: whether the day or the month comes first where both are numbers. A unit after a number or a day is
    passed over; another number is not."""
    said = " ".join(text.split())
    value = _coerced(said, schema, order) if kind_of(schema) != "array" else _several(text, schema, order)
    if value is not None or not _is_measured(schema):
        return value
    parts = said.split(" ")[:12]
    for count in range(len(parts) - 1, 0, -1):
        if any(letter.isdigit() for letter in "".join(parts[count:])):
            break
        value = _coerced(" ".join(parts[:count]).rstrip(".,;，；。"), schema, order)
        if value is not None:
            return value
    return _coerced(said.rstrip(".,;，；。"), schema, order)


def _is_measured(schema: Mapping[str, Any]) -> bool:
    return kind_of(schema) in ("number", "integer") or schema.get("format") in ("date", "date-time")


def _coerced(said: str, schema: Mapping[str, Any], order: Order | None) -> Any | None:
    kind = kind_of(schema)
    if "enum" in schema:
        return _chosen(said, schema)
    if kind == "boolean":
        return truth_of(said)
    if fold(said) in _UNKNOWN:
        return None
    if kind in ("number", "integer"):
        return _number(said, is_whole=kind == "integer")
    return _text(said, schema, order) if kind == "string" else None


def _chosen(said: str, schema: Mapping[str, Any]) -> Any | None:
    """The choice that is written, or that means the same number or truth."""
    spend(len(schema["enum"]))
    for choice in schema["enum"]:
        if isinstance(choice, str) and fold(choice) == fold(said):
            return choice
    plain = {key: value for key, value in schema.items() if key != "enum"}
    value = coerced(said, plain) if kind_of(schema) != "string" else None
    return value if value in schema["enum"] else None


def _number(said: str, *, is_whole: bool) -> int | float | None:
    number = number_of(said)
    if number is None:
        return None
    if number == number.to_integral_value() and (is_whole or "." not in str(number)):
        return int(number)
    return None if is_whole else float(number)


def _several(text: str, schema: Mapping[str, Any], order: Order | None) -> list[Any] | None:
    items = schema.get("items")
    below: Mapping[str, Any] = items if isinstance(items, Mapping) else {}
    for mark in "；;、，,\n":
        text = text.replace(mark, "\x1f")
    values = [coerced(part, below, order) for part in text.split("\x1f") if part.strip()]
    return None if None in values or not values else values


def _text(said: str, schema: Mapping[str, Any], order: Order | None) -> str | None:
    kind = schema.get("format")
    if kind == "date":
        day = date_of(said, order)
        return day.isoformat() if day else None
    if kind == "date-time":
        return moment_of(said, order)
    return said
