"""Finds the objects around positions in a file, also where another object seems to begin within a string of one."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from penstock.pdf.bytescan.index import TRAILER, UNNUMBERED, Bytes, ObjectIndex
from penstock.pdf.syntax import Parsed, parse_object

# An object up to its end, with nothing in it that could make a reader see another end.
_SIMPLE = re.compile(
    rb"(?:[^()<>%es]++|<<|>>|<[0-9A-Fa-f\x00\t\n\x0c\r ]*+>|\((?:[^()\\]++|\\.)*+\)|e(?!ndobj)|s(?!tream))*+"
    rb"(?<=[\x00\t\n\x0c\r \])>])(?=endobj|stream)",
    re.DOTALL,
)
_NEAR = 1024


def objects_around(file: Bytes, index: ObjectIndex, places: list[int]) -> Iterator[tuple[int, Parsed]]:
    """Every object with a number, and every trailer, within which one of the positions is; `places` are in order."""
    if not places:
        return
    for start, number in zip(index.starts, index.numbers, strict=True):
        if start > places[-1]:
            return
        if number == UNNUMBERED:
            continue
        following = places[bisect_right(places, start)] if start < places[-1] else places[-1]
        text = file.read(start, _NEAR)
        if number == TRAILER and not text.lstrip(b"\x00\t\n\x0c\r ").startswith(b"<<"):
            continue
        simple = _SIMPLE.match(text)
        if simple and start + simple.end() <= following:
            continue
        found = file.parsed(start, parse_object)
        if following <= found.end:
            yield start, found
