"""Opaque cursors: where the next part of a list begins, told by the last row of the part before.

A cursor names values of that row and not a count, so rows that come or go elsewhere neither repeat nor skip one.
It also names the question it belongs to: another sorting with it is refused.
"""

import base64
import binascii
from typing import Any

from penstock.kernel import error_codes, json
from penstock.kernel.errors import PenstockError


def pack(question: str, *values: Any) -> str:
    return base64.urlsafe_b64encode(json.dump_bytes([question, *values])).decode().rstrip("=")


def unpack(cursor: str, question: str, *kinds: type) -> list[Any]:
    """The values, of these kinds; CURSOR_INVALID for what we never gave, or gave for another question."""
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        raise PenstockError(error_codes.CURSOR_INVALID) from None
    if not isinstance(found, list) or len(found) != len(kinds) + 1 or found[0] != question:
        raise PenstockError(error_codes.CURSOR_INVALID)
    if any(type(value) is not kind for value, kind in zip(found[1:], kinds, strict=True)):
        raise PenstockError(error_codes.CURSOR_INVALID)
    return found[1:]
