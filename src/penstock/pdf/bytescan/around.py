"""Finds the objects around positions in a file, and positions that are in none.

Another object may seem to begin within a string of one. Some readers go on behind the end that others see.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from penstock.pdf.bytescan.index import TRAILER, UNNUMBERED, Bytes, ObjectIndex
from penstock.pdf.bytescan.streams import RawStreams
from penstock.pdf.syntax import Parsed, parse_object

# An object up to its end, with nothing in it that could make a reader see another end.
_SIMPLE = re.compile(
    rb"(?:[^()<>%es]++|<<|>>|<[0-9A-Fa-f\x00\t\n\x0c\r ]*+>|\((?:[^()\\]++|\\.)*+\)|e(?!ndobj)|s(?!tream))*+"
    rb"(?<=[\x00\t\n\x0c\r \])>])(?=endobj|stream)",
    re.DOTALL,
)
_NEAR = 1024
# An object ends here for every reader: by its word, as the next one begins, or as a table follows.
_END = re.compile(
    rb"(?:[\x00\t\n\x0c\r ]++|%[^\r\n]*+)*+"
    rb"(?:endobj|(?:start)?xref|\d++[\x00\t\n\x0c\r ]++\d++[\x00\t\n\x0c\r ]++obj|obj|(?P<last>\Z))"
)


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


def ends_for_all(file: Bytes, streams: RawStreams, found: Parsed) -> bool:
    """Whether nothing stands behind an object that a reader could take for its value, or for its stream."""
    ends = [streams.end_of_data(start) + len(b"endstream") for _, start in found.streams] or [found.end]
    return all(_is_end(file.read(end, _NEAR)) for end in ends)


def _is_end(behind: bytes) -> bool:
    found = _END.match(behind)
    return found is not None and (found["last"] is None or len(behind) < _NEAR)


def first_outside(file: Bytes, index: ObjectIndex, streams: RawStreams, places: list[int]) -> int | None:
    """The first of the positions that is in no value and in no data of a stream, as far as all readers agree."""
    numbered = [start for start, number in zip(index.starts, index.numbers, strict=True) if number != UNNUMBERED]
    found, before = None, 0
    for at in places:
        position = bisect_right(numbered, at)
        if not position:
            return at
        if found is None or numbered[position - 1] != before:
            before = numbered[position - 1]
            found = file.parsed(before, parse_object)
        if found.is_whole and at < found.end:
            continue
        if not found.is_clean or found.stream_at is None or at >= streams.end_of_data(found.stream_at):
            return at
    return None
