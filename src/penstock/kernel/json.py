"""JSON as the whole product reads and writes it: fast, UTF-8, dates in RFC 3339."""

from collections.abc import Mapping
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder()


def dump_bytes(value: Any) -> bytes:
    return _encoder.encode(value)


def dumps(value: Any) -> str:
    return _encoder.encode(value).decode()


def loads(text: str | bytes) -> Any:
    return _decoder.decode(text)


def dumps_storable(value: Any) -> str:
    """`dumps` of what is `storable`; most of it is so already."""
    try:
        text = dumps(value)
    except UnicodeEncodeError:  # half of a letter
        return dumps(storable(value))
    return dumps(storable(value)) if "\\u0000" in text else text


def storable(value: Any) -> Any:
    """The same without what PostgreSQL's jsonb cannot hold: NUL and halves of letters, wherever they stand."""
    if isinstance(value, str):
        return value.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {storable(str(name)): storable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [storable(each) for each in value]
    return value
