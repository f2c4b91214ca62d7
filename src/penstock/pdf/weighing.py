"""Weighs every stream of a file: inflated size, stated picture size, and which forms its content draws.

Images are held by the size they state, and inflated only while there is a budget: a book of lossless scans
inflates to tens of gigabytes, one page at a time, and is honest. Everything else counts towards one total.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from pikepdf import Stream

from penstock.pdf import codes
from penstock.pdf.findings import Bounds, Notes
from penstock.pdf.inflating import TooManyFilters, expands, filters_of, pieces_of
from penstock.pdf.reading import Reference, name_of, number_of

_NUMBERS = re.compile(rb"/(Width|Height|BitsPerComponent|Columns|Colors) (\d{1,20})(?![\d.]| \d+ R)")
# A name and `Do`, with spaces or comments between.
_DRAWS = re.compile(rb"/([^\s()<>\[\]{}/%]{1,200})(?:[\s\x00]|%[^\r\n]{0,80}[\r\n]){1,20}Do(?![^\s()<>\[\]{}/%])")
_OVERLAP = 512
_NO_CONTENT = (b"/Length1", b"/ObjStm", b"/XRef", b"/Metadata", b"FontType0C", b"Type1C", b"/OpenType", b"/N ")
_IMAGE_WORK = 2 << 30
_MAX_ROW = 64 << 20
_DEFLATE_AT_MOST = 1032  # to 1; no deflate stream does better


@dataclass(slots=True)
class Weight:
    """One stream: how many bytes it becomes, and how often it draws which names."""

    size: int = 0
    draws: Counter[str] = field(default_factory=Counter)


class Scales:
    """Adds up the streams of one file."""

    def __init__(self, bounds: Bounds, notes: Notes) -> None:
        self._bounds = bounds
        self._notes = notes
        self._image_work = 0
        self._over = False
        self.inflated = 0
        self.weights: dict[Reference, Weight] = {}

    def weigh(self, stream: Stream, text: bytes) -> None:
        """`text` is the stream's dictionary, written out with plain names."""
        place = f"object {stream.objgen[0]}"
        is_image = b"/Subtype /Image" in text or name_of(stream.stream_dict, "/Subtype") == "/Image"
        if self._lies(stream, text, place, is_image=is_image):
            return
        try:
            filters = filters_of(stream)
        except TooManyFilters:
            self._notes.add(codes.DECOMPRESSION_BOMB, place, "one stream with more than 8 filters")
            return
        if is_image:
            self._weigh_image(stream, filters, place)
        elif not self._over:
            self.weights[stream.objgen] = self._weigh_content(stream, text, place)

    def _lies(self, stream: Stream, text: bytes, place: str, *, is_image: bool) -> bool:
        stated = {key: int(value) for key, value in _NUMBERS.findall(text)}
        depth = stated.get(b"BitsPerComponent", 1 if b"/ImageMask true" in text else 8)
        if stated.get(b"Columns", 1) * max(1, stated.get(b"Colors", 1)) * max(depth, 1) // 8 > _MAX_ROW:
            self._notes.add(codes.DECOMPRESSION_BOMB, place, f"rows of {stated[b'Columns']} columns")
            return True
        if not is_image:
            return False
        width, height = (_side(stream, stated, key) for key in (b"Width", b"Height"))
        if width * height * depth * _components(text) // 8 <= self._bounds.max_stream_bytes:
            return False
        self._notes.add(codes.DIMENSIONS_EXCEEDED, place, f"an image of {width} by {height} pixels")
        return True

    def _weigh_image(self, stream: Stream, filters: list[str], place: str) -> None:
        if not expands(filters) or self._image_work > _IMAGE_WORK:
            return
        if len(filters) == 1 and _stated_length(stream) * _DEFLATE_AT_MOST <= self._bounds.max_stream_bytes:
            return  # cannot become too large, and is drawn row by row up to the size it states
        size = 0
        for piece in pieces_of(stream):
            size += len(piece)
            self._image_work += len(piece)
            if size > self._bounds.max_stream_bytes:
                self._notes.add(codes.DECOMPRESSION_BOMB, place, f"an image that inflates beyond {size >> 20} MiB")
                return

    def _weigh_content(self, stream: Stream, text: bytes, place: str) -> Weight:
        weight, tail = Weight(), b""
        draws = not any(each in text for each in _NO_CONTENT)
        for piece in pieces_of(stream):
            weight.size += len(piece)
            self.inflated += len(piece)
            if self._too_much(weight.size, place):
                return Weight()
            if draws and b"Do" in piece:
                data = tail + piece
                weight.draws.update(_name(m[1]) for m in _DRAWS.finditer(data) if m.end() > len(tail))
            tail = piece[-_OVERLAP:] if draws else b""
        return weight

    def _too_much(self, size: int, place: str) -> bool:
        if size > self._bounds.max_stream_bytes:
            self._notes.add(codes.DECOMPRESSION_BOMB, place, f"a stream that inflates beyond {size >> 20} MiB")
            return True
        if self.inflated > self._bounds.max_inflated_bytes:
            self._over = True
            self._notes.add(codes.DECOMPRESSION_BOMB, place, f"streams that inflate beyond {self.inflated >> 20} MiB")
        return self._over


def _side(stream: Stream, stated: dict[bytes, int], key: bytes) -> int:
    """As written in place, or where it refers to."""
    return stated[key] if key in stated else int(number_of(stream.stream_dict.get(f"/{key.decode()}")) or 0)


def _stated_length(stream: Stream) -> int:
    try:
        return max(0, int(stream.stream_dict.get("/Length", 1 << 62)))
    except (TypeError, ValueError):
        return 1 << 62


def _components(text: bytes) -> int:
    if b"/ImageMask true" in text or b"/Indexed" in text or b"/DeviceGray" in text:
        return 1
    return 4 if b"/DeviceCMYK" in text else 3


def _name(raw: bytes) -> str:
    """A name as the resources spell it, escapes undone."""
    return "/" + re.sub(rb"#([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), raw).decode("utf-8", errors="replace")
