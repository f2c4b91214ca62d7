"""Reading pikepdf objects without tripping over a stranger's types: what is not as expected is absent."""

import math
from collections.abc import Iterator

from pikepdf import Array, Name, Object

Reference = tuple[int, int]


def name_of(holder: Object, key: str) -> str:
    value = holder.get(key)
    return text_of_name(value) if isinstance(value, Name) else ""


def text_of_name(name: Object) -> str:
    """The name with its slash; empty where its bytes are no text, as no name that we look for is like that."""
    try:
        return str(name)
    except UnicodeDecodeError:
        return ""


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
