"""One way to write a value, so that equal values hash equally on any machine, in any process, and after jsonb.

As RFC 8785, but for two things: whole numbers are written in full however large they are (so does jsonb), and keys are
sorted by code point. Text is taken as it is and not normalised: two spellings of a letter are two different requests.
What has no one way to be written (NaN, sets, naive times, halves of surrogate pairs, U+0000) is refused.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol

from penstock.harvest.durations import iso_text


class Asked(Protocol):
    """What names a stream of records: an endpoint and what it is asked for."""

    @property
    def endpoint_name(self) -> str: ...
    @property
    def params(self) -> dict[str, str]: ...


def canonical_bytes(value: Any) -> bytes:
    """ValueError or TypeError for what cannot be written."""
    return _written(value).encode()


def fingerprint(value: Any) -> str:
    return f"sha256:{hashlib.sha256(canonical_bytes(value)).hexdigest()}"


def namespace_key(spec: Asked) -> str:
    """The namespace of the cursor: other parameters, other records, another watermark."""
    return f"{spec.endpoint_name}?{canonical_bytes(spec.params).decode()}" if spec.params else spec.endpoint_name


def _written(value: Any) -> str:
    if isinstance(value, Enum):
        return _written(value.value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key)}:{_written(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_written, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime):
        return _text(_instant(value))
    if isinstance(value, timedelta):
        return _text(iso_text(value))
    raise TypeError(f"{type(value).__name__} has no canonical form")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be text: {key!r}")
    return _written(key)


def _text(value: str) -> str:
    if "\x00" in value:
        raise ValueError("text with U+0000 cannot be stored")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("text with half a surrogate pair cannot be written")
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    shortest = Decimal(repr(value))  # not Decimal(value): jsonb reads the digits that were sent, and so do we
    if shortest == int(shortest):
        return str(int(shortest))
    if abs(value) >= 1e-6:
        return format(shortest, "f")
    digits, _, exponent = repr(value).partition("e")
    return f"{digits}e{int(exponent)}"


def _instant(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
