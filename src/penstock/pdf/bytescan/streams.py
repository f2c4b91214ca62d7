"""The data of a stream as it stands in the bytes, in every way that a reader may cut it out."""

from collections.abc import Callable
from functools import lru_cache

from penstock.pdf.bytescan.index import Bytes
from penstock.pdf.bytescan.packed import Unclear
from penstock.pdf.syntax import Value

_FIRST_LINE = 4096
_PIECE = 1 << 20
_LONGEST = 64 << 20
_END = b"endstream"


class RawStreams:
    """Finds where data begins and ends. `numbers_of` gives every number that a value may be."""

    def __init__(self, file: Bytes, numbers_of: Callable[[Value], list[int]]) -> None:
        self._file = file
        self._numbers_of = numbers_of
        # The position of the first `endstream` behind another; the end of what is looked at, if there is none.
        self.end_of_data = lru_cache(maxsize=64)(self._find_end)

    def contents(self, held: dict[str, Value], start: int) -> list[bytes]:
        """The longest stretch for each beginning: what a reader takes that stops earlier is the same up to there."""
        lengths = [each for each in self._numbers_of(held.get("Length")) if 0 <= each <= _LONGEST]
        made = []
        for begin in self._beginnings(start):
            end = max(begin + max(lengths, default=0), self.end_of_data(begin))
            made.append(self._file.read(begin, min(end - begin, _LONGEST)))
        return made

    def _beginnings(self, start: int) -> list[int]:
        """Behind the end of the line, usually at once; some readers pass over whatever stands before it."""
        line = self._file.read(start, _FIRST_LINE)
        if line[:2] == b"\r\n":
            return [start + 2]
        if line[:1] == b"\n":
            return [start + 1]
        found = [start + 1] if line[:1] == b"\r" else [start]
        ends = [at for at in (line.find(b"\n"), line.find(b"\r")) if at >= 0]
        if not ends and len(line) == _FIRST_LINE:
            raise Unclear(f"byte {start}", "a stream whose first line does not end")
        for at in ends:
            begin = at + (2 if line[at : at + 2] == b"\r\n" else 1)
            if start + begin not in found:
                found.append(start + begin)
        return found

    def _find_end(self, begin: int) -> int:
        at = begin
        while at < min(self._file.size, begin + _LONGEST):
            data = self._file.read(at, _PIECE + len(_END))
            found = data.find(_END)
            if found >= 0:
                return at + found
            at += _PIECE
        return min(at, self._file.size)
