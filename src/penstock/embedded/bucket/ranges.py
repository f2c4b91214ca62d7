"""What part of an object a request brings or wants."""

import re
from dataclasses import dataclass

from penstock.embedded.bucket.refusals import Refusal, malformed

QUANTUM = 256 * 1024
_CONTENT = re.compile(r"bytes (?:(?P<all>\*)|(?P<first>\d{1,18})-(?P<last>\d{1,18}|\*))/(?P<total>\d{1,18}|\*)")
_LENGTHS = re.compile(r"(?P<least>\d{1,18}),(?P<most>\d{1,18})")
_WANTED = re.compile(r"bytes=(?:(?P<first>\d{1,18})-(?P<last>\d{0,18})|-(?P<suffix>\d{1,18}))")


@dataclass(frozen=True, slots=True)
class Arriving:
    """`length` None: as much as comes. `total` None: not known yet. `only_asks`: brings nothing."""

    start: int = 0
    length: int | None = None
    total: int | None = None
    ends_with_body: bool = False  # whatever has come when the body ends is the whole object
    only_asks: bool = False


def read_content_range(text: str | None, content_length: int | None) -> Arriving:
    """Without the header, the body is the whole object."""
    if text is None:
        return Arriving(0, content_length, content_length, ends_with_body=True)
    found = _CONTENT.fullmatch(text.strip())
    if found is None:
        raise malformed("Content-Range cannot be read.")
    total = None if found["total"] == "*" else int(found["total"])
    if found["all"]:
        if content_length:
            raise malformed("A request for the status has no body.")
        return Arriving(total=total, only_asks=True)
    start = int(found["first"])
    if total is not None and start > total:
        raise malformed("Content-Range contradicts itself.")
    if found["last"] == "*":
        return Arriving(start, None if total is None else total - start, total, ends_with_body=True)
    length = int(found["last"]) - start + 1
    if length <= 0 or (total is not None and start + length > total):
        raise malformed("Content-Range contradicts itself.")
    if content_length is not None and content_length != length:
        raise malformed("Content-Length and Content-Range contradict each other.")
    return Arriving(start, length, total)


def read_length_range(text: str | None) -> tuple[int, int | None]:
    """How many bytes an object has at the least and at the most: x-goog-content-length-range."""
    if text is None:
        return 0, None
    found = _LENGTHS.fullmatch(text.strip())
    if found is None or int(found["least"]) > int(found["most"]):
        raise malformed("x-goog-content-length-range cannot be read.")
    return int(found["least"]), int(found["most"])


def read_range(text: str | None, size: int) -> tuple[int, int] | None:
    """First byte and number of bytes; None: all. What is not one range of bytes is ignored, as HTTP wants it."""
    found = _WANTED.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    if found["suffix"]:
        first, last = max(0, size - int(found["suffix"])), size - 1
        unsatisfiable = size == 0 or int(found["suffix"]) == 0
    else:
        first, last = int(found["first"]), min(size - 1, int(found["last"] or size))
        if found["last"] and int(found["last"]) < first:
            return None
        unsatisfiable = first >= size
    if unsatisfiable:
        raise Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")
    return first, last - first + 1
