"""The streams of a PDF as they lie in the file: which of them an image is, and whether its dictionary names a mask.

PDFium does not tell. A stream's dictionary is never compressed, so both can be seen in the file's bytes. What is not
seen clearly (an encrypted file, names written with escapes, a file too large to be mapped) is said to be unknown.
"""

import mmap
import os
import re
from typing import BinaryIO

_BEGIN = re.compile(rb"stream\r?\n")  # a plain word first: the search is as fast as it can be
_MAPPED_AT_MOST = 64 << 20  # a mapping counts against the memory of the call
_KEY = 16  # bytes
_LONGEST_DICTIONARY = 4096


class Streams:
    """Of one file. Looked through once, when first asked."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._data: mmap.mmap | bytes | None = None
        self._begins: dict[bytes, list[int]] = {}

    def places(self, stored: bytes) -> list[int]:
        """Where in the file streams begin that are these bytes."""
        data = self._mapped()
        middle = len(stored) // 2
        probe = stored[middle : middle + _KEY]
        return [
            begin
            for begin in self._begins.get(stored[:_KEY], ())
            if data[begin + middle : begin + middle + len(probe)] == probe
            and data[begin : begin + len(stored)] == stored
        ]

    def is_unmasked(self, begin: int) -> bool:
        """Whether the dictionary before this stream surely names no mask."""
        data = self._mapped()
        before = data[max(0, begin - _LONGEST_DICTIONARY) : begin]
        start = max(before.rfind(b"endobj"), before.rfind(b"endstream"))
        if start < 0 and begin > _LONGEST_DICTIONARY:
            return False
        return b"Mask" not in before[start:] and b"#" not in before[start:]

    def close(self) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()

    def _mapped(self) -> mmap.mmap | bytes:
        if self._data is None:
            size = os.fstat(self._file.fileno()).st_size
            is_small = 0 < size <= _MAPPED_AT_MOST
            self._data = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ) if is_small else b""
            for found in _BEGIN.finditer(self._data):
                begin = found.end()
                if self._data[found.start() - 3 : found.start()] != b"end":
                    self._begins.setdefault(self._data[begin : begin + _KEY], []).append(begin)
        return self._data
