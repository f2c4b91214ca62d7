"""Entries of cross-reference tables that lead to an object of another number, or to one without the word `obj`.

Most readers mend such a table; some take whatever stands at the offset for the object that they asked for. So what a
reference may lead to includes these. pypdf reads any three letters for `obj`: what follows them is an object too.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from penstock.pdf.bytescan.index import Bytes, ObjectIndex
from penstock.pdf.bytescan.packed import Unclear

_LINE = re.compile(
    rb"[\x00\t\n\x0b\x0c\r ]*(\d{1,18})[\x00\t\n\x0b\x0c\r ]+(\d{1,18})(?:[\x00\t\n\x0b\x0c\r ]*([nf])(?![a-z]))?"
)
_ONLY_ENTRIES = re.compile(rb"[\x00\t\n\x0b\x0c\r 0-9nf]*+\Z")
_WINDOWS = (1 << 10, 1 << 20, 16 << 20)
_MOST_TABLES = 20_000
_MANY = 1000
_OFFSET = re.compile(rb"\d{8,18}")
_ANY_HEADER = re.compile(rb"[\x00\s]*[+_-]*(\d*)[\d+_-]*[\x00\s]+[\d+_-]+[\x00\s]+(?!obj|[nf]\s+[\dt])...", re.DOTALL)
_NEAR = 40  # from an offset to the end of `1 0 obj`
_HEAD = 1024 + 8


class StrayEntries:
    """Objects by the numbers under which some table names them, where these are not their own."""

    def __init__(self, file: Bytes, index: ObjectIndex) -> None:
        self._file, self._index = file, index
        self._header = max(0, file.read(0, _HEAD).find(b"%PDF-"))  # offsets count from there, or from the start
        self._of_number: dict[int, dict[int, None]] = {}

    def places_of(self, number: int) -> list[int]:
        return list(self._of_number.get(number, ()))

    def add_tables(self) -> None:
        starts = {
            begin + found.end()
            for begin, data in self._file.chunks()
            for found in re.finditer(rb"(?<!start)xref", data)
        }
        if len(starts) > _MOST_TABLES:
            raise Unclear("", "more cross-reference tables than can be looked at")
        for start in sorted(starts):
            stretch = self._stretch(start)
            for number, offset in _entries(stretch):
                self._add(number, offset)
            # An entry may be damaged as well: any number of that many digits may be an offset.
            for offset in {int(each) for each in _OFFSET.findall(stretch)}:
                for base in {offset, offset + self._header}:
                    self._add_misspelt(None, base)

    def _stretch(self, start: int) -> bytes:
        """The bytes of a table, up to what is no entry: few, where it is none."""
        for window in _WINDOWS:
            data = self._file.read(start, window)
            if len(data) < window or _ONLY_ENTRIES.match(data) is None:
                break
        return data

    def add_stream(self, data: bytes, widths: list[int], sections: list[int]) -> None:
        """The entries of a cross-reference stream, decoded."""
        if len(widths) < 3 or not 0 < sum(widths) <= 64 or min(widths) < 0:
            return
        row, at = sum(widths), 0
        for start, count in zip(sections[::2], sections[1::2], strict=False):
            for number in range(start, start + min(count, (len(data) - at) // row)):
                kind = int.from_bytes(data[at : at + widths[0]], "big") if widths[0] else 1
                if kind == 1:
                    self._add(number, int.from_bytes(data[at + widths[0] : at + widths[0] + widths[1]], "big"))
                at += row

    def _add_misspelt(self, number: int | None, base: int) -> None:
        """Count what an offset leads to as an object if two numbers and any word but `obj` stand there."""
        found = _ANY_HEADER.match(self._file.read(base, _NEAR)) if base < self._file.size else None
        if found is None:
            return
        own = int(found[1] or b"0") if number is None else number
        if not self._index.insert(own, base + found.end(), _MANY):
            raise Unclear(f"byte {base}", "too many objects whose headers are damaged")

    def _add(self, number: int, offset: int) -> None:
        own = self._index.places_of(number)
        if not self._header and len(own) == 1 and 0 < own[0] - offset <= _NEAR:
            return
        for base in {offset, offset + self._header}:
            self._add_misspelt(number, base)
            at = bisect_right(self._index.starts, base)
            if at == len(self._index.starts):
                continue
            start = self._index.starts[at]
            if start - base <= _NEAR and (len(own) > _MANY or start not in own):
                self._of_number.setdefault(number, {})[start] = None


def streams_named_in(data: bytes, widths: list[int]) -> set[int]:
    """The numbers of the object streams that a cross-reference stream, decoded, names."""
    if len(widths) < 3 or not 0 < sum(widths) <= 64 or min(widths) < 0 or not widths[0]:
        return set()
    row, first, second = sum(widths), widths[0], widths[0] + widths[1]
    kind = (2).to_bytes(first, "big")
    fields = {data[at + first : at + second] for at in range(0, len(data), row) if data[at : at + first] == kind}
    return {int.from_bytes(each, "big") for each in fields}


def _entries(data: bytes) -> Iterator[tuple[int, int]]:
    number, at, is_first, shifts = 0, 0, True, False
    while found := _LINE.match(data, at):
        at = found.end()
        if found[3] is None:
            number, is_first = int(found[1]), True
            continue
        if is_first:  # numbered from 1 by mistake, beginning with the entry that is always 0
            shifts = number == 1 and found[3] == b"f"
            is_first = False
        if found[3] == b"n":
            yield number, int(found[1])
            if shifts:
                yield number - 1, int(found[1])
        number += 1
