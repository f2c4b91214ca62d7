"""Where objects begin in the bytes of a file: every `1 0 obj`, whatever the cross-reference table says.

A reader that mistrusts the table searches for these words, and may find them in old revisions, behind the end of the
file, or within streams and strings. Read in chunks with `pread`, so memory does not grow with the file.
"""

import os
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator

from penstock.pdf.syntax import Parsed

_CHUNK = 8 << 20
OVERLAP = 8 << 10
UNNUMBERED, TRAILER, _ANY = -1, -2, -3
_MOST_ANY = 200
_W = rb"[\x00\t\n\x0c\r \x0b\x80\xff]"
_BEHIND = b"\x00\t\n\x0c\r \x0b\x80\xff()<>[]{}/%"
# A number alone, nothing but blanks, or the end of a line, which may be a comment: the rest may stand far before.
_HALF = re.compile(rb"(?:[\r\n]|" + _W + rb"{4000}|" + _W + rb"[0-9+.-]+)" + _W + rb"*\Z")
_NUMBERS = re.compile(
    rb"(?:\A|[^0-9+.-])(?=[0-9+.-])[+-]*0*(\d{0,18})[0-9+.-]*(?:" + _W + rb"|%[^\r\n]*[\r\n])+"
    rb"[0-9+.-]+(?:" + _W + rb"|%[^\r\n]*[\r\n])*\Z"
)
_BEFORE = frozenset(b"\x00\t\n\x0c\r \x0b\x80\xff0123456789+-.()<>[]{}/%")
_WINDOWS = (4 << 10, 64 << 10, 1 << 20, 16 << 20)


class TooManyObjects(Exception):
    """More objects than a file may hold, with all its revisions."""


class Bytes:
    """A file that is read at any position."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, start: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, max(0, start))

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Position and data; each chunk repeats the end of the one before."""
        for start in range(0, self.size, _CHUNK):
            begin = max(0, start - OVERLAP)
            yield begin, self.read(begin, start - begin + _CHUNK)

    def parsed(self, at: int, parse: Callable[[bytes], Parsed], most: int = _WINDOWS[-1]) -> Parsed:
        """What stands at a position, with positions counted from the start of the file; `most` bytes are read."""
        for window in _WINDOWS:
            if window > most:
                break
            data = self.read(at, window)
            found = parse(data)
            # The word `stream` may stand behind the window.
            if (found.is_whole and found.end < len(data) - 64) or len(data) < window:
                break
        found.end += at
        if found.stream_at is not None:
            found.stream_at += at
        found.streams = [(held, start + at) for held, start in found.streams]
        return found


class ObjectIndex:
    """The positions behind each `obj`, in order, with the number before it, and those of every object number."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.starts = array("Q")
        self.numbers = array("q")  # UNNUMBERED where there is none
        self._of_number: dict[int, int | list[int]] = {}
        self._inserted = 0
        self._of_any: list[int] = []  # with a number that stands too far before

    def add_chunk(self, begin: int, data: bytes) -> None:
        """Find the objects of a chunk. The word `trailer` counts as the start of one without a number."""
        known = self.starts[-1] if self.starts else 0
        found = [(start, number) for start, number in _objects(data) if begin + start > known]
        found += [(start, TRAILER) for start in _trailers(data) if begin + start > known]
        for start, number in sorted(found):
            self.starts.append(begin + start)
            self.numbers.append(number)
            if number >= 0:
                self.add(number, begin + start)
            elif number == _ANY:
                self._of_any.append(begin + start)
        if len(self.starts) > self._most or len(self._of_any) > _MOST_ANY:
            raise TooManyObjects

    def insert(self, number: int, place: int, most: int) -> bool:
        """Take a place for the start of an object though no `obj` stands before; False if it is one too many."""
        at = bisect_left(self.starts, place)
        if self.starts[at : at + 1] != array("Q", [place]):
            self.starts.insert(at, place)
            self.numbers.insert(at, number)
            self.add(number, place)
            self._inserted += 1
        return self._inserted <= most

    def add(self, number: int, place: int) -> None:
        before = self._of_number.get(number)
        if before is None:
            self._of_number[number] = place
        elif isinstance(before, int):
            self._of_number[number] = [before, place]
        else:
            before.append(place)

    def places_of(self, number: int) -> list[int]:
        found = self._of_number.get(number, [])
        return [found, *self._of_any] if isinstance(found, int) else [*found, *self._of_any]


def _objects(data: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(b"obj")
    while at >= 0:
        if at and data[at - 1] in _BEFORE:
            yield at + 3, _number_before(data, at)
        at = data.find(b"obj", at + 3)


def _number_before(data: bytes, at: int) -> int:
    """Of the object whose `obj` stands at this position; none where no numbers are."""
    words = data[max(0, at - 24) : at].split()[-2:]
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
        return int(words[0])
    found = _NUMBERS.search(data, max(0, at - 40), at) or _NUMBERS.search(data, max(0, at - 4096), at)
    if found:
        return int(found[1] or b"0")
    is_word = data[at + 3 : at + 4] in _BEHIND  # or it is text that is written in 64 letters
    return _ANY if is_word and _HALF.search(data, max(0, at - 4096), at) else UNNUMBERED


def _trailers(data: bytes) -> Iterator[int]:
    at = data.find(b"trailer")
    while at >= 0:
        yield at + 7
        at = data.find(b"trailer", at + 7)
