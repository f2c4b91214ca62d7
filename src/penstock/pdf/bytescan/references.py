"""Finds each `R` in bytes that does not follow two plain numbers, though some reader may take it for a reference.

PDFium takes reals and signs alone for numbers, pdfminer any two values; no honest writer makes such references.
"""

import re
from collections.abc import Iterator

_BLANK = rb"\x00\t\n\x0c\r "
_APART = rb"\x00\t\n\x0c\r ()<>\[\]{}/"
_LOOSE = re.compile(
    rb"R(?![^\x00\t\n\x0c\r \x0b\x80\xff()<>\[\]{}/%])(?<=[\x00\t\n\x0c\r \x0b\x80\xff)>\]}0-9+.-]R)"
    # The most common form, passed over here as it is quick.
    + b"".join(rb"(?<![" + _APART + rb"]" + rb"\d" * digits + rb" 0 R)" for digits in range(1, 8))
)
_PLAIN = re.compile(rb"[" + _APART + rb"]\d++[" + _BLANK + rb"]++\d++[" + _BLANK + rb"]*+\Z")
_LINE_END = re.compile(rb"[\r\n]")


def loose_references(data: bytes) -> Iterator[int]:
    for found in _LOOSE.finditer(data):
        at = found.start()
        if not _is_plain(data, at, 64) and not _is_plain(data, at, 4096):
            yield at


def _is_plain(data: bytes, at: int, before: int) -> bool:
    """Whether two plain numbers stand there, and not in a comment that ends before the `R`."""
    start = max(0, at - before)
    found = _PLAIN.search(data, start, at)
    if found is None:
        return False
    return not _LINE_END.search(data, found.start() + 1, at) or data.find(b"%", start, at) < 0
