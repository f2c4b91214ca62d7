"""Values as JSON Schema compares them: 1 and 1.0 are equal, 1 and true are not."""

from collections.abc import Hashable, Mapping
from typing import Any

from penstock.kernel import json
from penstock.kernel.step_budget import spend

_LETTERS_PER_STEP = 16


def canonical(value: Any) -> str:
    """The same text for equal values."""
    text = json.dumps(_plain(value))
    spend(len(text) // _LETTERS_PER_STEP)
    return text


def canonical_key(value: Any) -> Hashable:
    """The same key for equal values; quicker than their text where a value is plain."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return (value,)
    if isinstance(value, int | float):
        return "number", value
    return "made", canonical(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [[key, _plain(value[key])] for key in sorted(value)] + [{}]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
