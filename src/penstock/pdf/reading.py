"""Reading pikepdf objects without tripping over a stranger's types: what is not as expected is absent."""

import math
from collections.abc import Iterator

from pikepdf import Array, Dictionary, Name, Object, Stream, String

Reference = tuple[int, int]


def dictionary_of(value: object) -> Object | None:
    """The dictionary itself, or that of a stream."""
    if isinstance(value, Stream):
        return value.stream_dict
    return value if isinstance(value, Dictionary) else None


def name_of(holder: Object, key: str) -> str:
    value = holder.get(key)
    return str(value) if isinstance(value, Name) else ""


def text_of(value: object) -> str:
    """A string as a reader would show it; empty for anything else."""
    if not isinstance(value, String):
        return ""
    data = bytes(value)
    if data.startswith((b"\xfe\xff", b"\xff\xfe")):
        return data.decode("utf-16", errors="replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")


def numbers_of(value: object) -> list[float]:
    """The numbers of an array; empty when one of them is none, or is not finite."""
    if not isinstance(value, Array):
        return []
    found = [number_of(each) for each in value]
    return [] if any(each is None for each in found) else [each for each in found if each is not None]


def number_of(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def elements_of(value: object) -> Iterator[object]:
    """The elements of an array, or the one thing that stands where an array may."""
    if isinstance(value, Array):
        yield from value
    elif value is not None:
        yield value


def reference_of(value: object) -> Reference | None:
    """The object number of something indirect."""
    return value.objgen if isinstance(value, Object) and value.is_indirect else None
