"""Objects that only some readers see: a cross-reference stream beside a table that calls them free.

Files are written like that so that old readers pass over what they do not know. Newer ones do see it, and qpdf does
not where both stand in one section. Behind a further, empty section that names the stream qpdf sees it too.
"""

import io
import os
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from penstock.pdf.reading import Reference

_SECTIONS = 1000
_PIECE = 1 << 20
_HEAD = 2048
_TAIL = 64 * 1024
_TRAILER = 8192
_START = re.compile(rb"startxref\s+(\d{1,15})")
_PREVIOUS = re.compile(rb"/Prev\s+(\d{1,15})")
_BESIDE = re.compile(rb"/XRefStm\s+(\d{1,15})")
_ESCAPE = re.compile(rb"#([0-9A-Fa-f]{2})")


def with_hidden_objects(file: BinaryIO, root: Reference) -> BinaryIO | None:
    """The file with sections behind it that bring hidden objects to light; None where there are none to hide in."""
    file.seek(0)
    head = max(0, file.read(_HEAD).find(b"%PDF-"))  # positions count from there
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _TAIL))
    starts = _START.findall(file.read(_TAIL))
    if not starts:
        return None
    previous = int(starts[-1])
    behind = b"\n"
    for beside in dict.fromkeys(_streams_beside_tables(file, head, previous)):
        start = end - head + len(behind)
        trailer = f"<</Size 10000000/Root {root[0]} {root[1]} R/Prev {previous}/XRefStm {beside}>>"
        behind += f"xref\n0 0\ntrailer\n{trailer}\nstartxref\n{start}\n%%EOF\n".encode()
        previous = start
    if previous == int(starts[-1]):
        return None
    return cast("BinaryIO", io.BufferedReader(_Lengthened(file, end, behind), _PIECE))


def _streams_beside_tables(file: BinaryIO, head: int, start: int) -> Iterator[int]:
    """From the newest section backwards."""
    seen: set[int] = set()
    while start not in seen and len(seen) < _SECTIONS:
        seen.add(start)
        trailer = _trailer(file, head + start)
        if beside := _BESIDE.search(trailer):
            yield int(beside[1])
        if not (before := _PREVIOUS.search(trailer)):
            return
        start = int(before[1])


def _trailer(file: BinaryIO, position: int) -> bytes:
    """What the section at this position says of itself, escapes in names undone."""
    file.seek(position)
    text = file.read(_TRAILER)
    if text.lstrip().startswith(b"xref"):
        file.seek(position)
        text = _behind(file, b"trailer")
    return _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), text.partition(b"stream\r")[0].partition(b"stream\n")[0])


def _behind(file: BinaryIO, word: bytes) -> bytes:
    held = b""
    while piece := file.read(_PIECE):
        held = held[-len(word) :] + piece
        if word in held:
            return (held.partition(word)[2] + file.read(_TRAILER))[:_TRAILER]
    return b""


class _Lengthened(io.RawIOBase):
    """A file, and bytes behind its end."""

    def __init__(self, file: BinaryIO, end: int, behind: bytes) -> None:
        self._file, self._end, self._behind, self._at = file, end, behind, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._end + len(self._behind)}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if self._at < self._end:
            self._file.seek(self._at)
            data = self._file.read(min(len(view), self._end - self._at))
        else:
            data = self._behind[self._at - self._end :][: len(view)]
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
