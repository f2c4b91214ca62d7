"""How long the samples of an MP4 or QuickTime file last, by its own tables: what players go by, whatever headers say.

Runs in the sandbox. Boxes are walked, not trusted: one that is larger than what holds it ends with that, an index is
read only up to a bound, and data is never read.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

_LARGEST_INDEX = 64 << 20
_DATA = (b"mdat", b"moov", b"moof")  # a file that ends within one of these is cut off
_PLAYED = (b"vide", b"soun")
_TRACK_FOLDERS = {b"moov": (b"trak", b"mvex"), b"trak": (b"mdia",), b"mdia": (b"minf",), b"minf": (b"stbl",)}


class IndexUnsound(Exception):
    """Says what is wrong with it."""


@dataclass
class Samples:
    """Of pictures and sound; other tracks (chapters, positions, times of day) may last as they like."""

    has_index: bool = False
    is_cut_off: bool = False
    _lasting: dict[int, float] = field(default_factory=dict)  # seconds, by track
    _scales: dict[int, int] = field(default_factory=dict)  # units a second, by track
    _defaults: dict[int, int] = field(default_factory=dict)  # units of a sample, by track

    @property
    def seconds(self) -> float:
        """The longest track's."""
        return max(self._lasting.values(), default=0.0)

    def read_index(self, index: memoryview) -> None:
        for kind, body in _boxes(index):
            if kind == b"trak":
                self._read_track(body)
            elif kind == b"mvex":
                for inner, trex in _boxes(body):
                    if inner == b"trex" and len(trex) >= 16:
                        track, units = struct.unpack_from(">I4xI", trex, 4)
                        self._defaults[track] = units

    def _read_track(self, trak: memoryview) -> None:
        track, scale, units, handler = 0, 0, 0, b""
        for kind, body in _within(trak, b"trak"):
            if kind == b"tkhd" and len(body) >= 24:
                track = struct.unpack_from(">I", body, 20 if body[0] == 1 else 12)[0]
            elif kind == b"mdhd" and len(body) >= 24:
                scale = struct.unpack_from(">I", body, 20 if body[0] == 1 else 12)[0]
            elif kind == b"hdlr":
                handler = handler or bytes(body[8:12])
            elif kind == b"stts" and len(body) >= 8:
                pairs = _table(body, 8, struct.unpack_from(">I", body, 4)[0], 8)
                units += sum(count * step for count, step in struct.iter_unpack(">II", pairs))
        if scale and handler in _PLAYED:
            self._scales[track] = scale
            self._lasting[track] = max(self._lasting.get(track, 0.0), units / scale)

    def read_piece(self, moof: memoryview) -> None:
        """One fragment: its samples come on top."""
        for kind, traf in _boxes(moof):
            if kind != b"traf":
                continue
            track, step = 0, 0
            for inner, body in _boxes(traf):
                if inner == b"tfhd" and len(body) >= 8:
                    flags, track = struct.unpack_from(">II", body)
                    said = _step_said(flags, body)
                    step = self._defaults.get(track, 0) if said is None else said
                elif inner == b"trun" and len(body) >= 8 and track in self._scales:
                    self._lasting[track] += _run(body, step) / self._scales[track]


def sample_times(file: BinaryIO) -> Samples:
    """Of the whole file, box by box."""
    size, place, found = file.seek(0, 2), 0, Samples()
    while place + 8 <= size:
        file.seek(place)
        head = file.read(16)
        length, kind = struct.unpack_from(">I4s", head)
        begins = 16 if length == 1 else 8
        if length == 1 and len(head) == 16:
            length = struct.unpack_from(">Q", head, 8)[0]
        length = size - place if length == 0 else length
        if length < begins:
            break
        if place + length > size:
            found.is_cut_off = kind in _DATA
            break
        if kind in (b"moov", b"moof"):
            file.seek(place + begins)
            body = memoryview(_read(file, length - begins))
            found.has_index |= kind == b"moov"
            found.read_index(body) if kind == b"moov" else found.read_piece(body)
        place += length
    return found


def _read(file: BinaryIO, size: int) -> bytes:
    if size > _LARGEST_INDEX:
        raise IndexUnsound(f"its index has more than {_LARGEST_INDEX} bytes")
    return file.read(size)


def _boxes(within: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    place = 0
    while place + 8 <= len(within):
        length, kind = struct.unpack_from(">I4s", within, place)
        begins = 8
        if length == 1 and place + 16 <= len(within):
            length, begins = struct.unpack_from(">Q", within, place + 8)[0], 16
        length = len(within) - place if length == 0 else length
        if length < begins:
            return
        yield kind, within[place + begins : place + length]
        place += length


def _within(body: memoryview, kind: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """What a track holds, at the depths where the tables are."""
    for inner, content in _boxes(body):
        yield inner, content
        if inner in _TRACK_FOLDERS.get(kind, ()):
            yield from _within(content, inner)


def _step_said(flags: int, tfhd: memoryview) -> int | None:
    """The duration of this fragment's samples, if it has one of its own."""
    if not flags & 0x8:
        return None
    place = 8 + (8 if flags & 0x1 else 0) + (4 if flags & 0x2 else 0)
    return struct.unpack_from(">I", tfhd, place)[0] if len(tfhd) >= place + 4 else None


def _run(trun: memoryview, step: int) -> int:
    flags, count = struct.unpack_from(">II", trun)
    if not flags & 0x100:
        return int(count * step)
    place = 8 + (4 if flags & 0x1 else 0) + (4 if flags & 0x4 else 0)
    width = 4 * (flags >> 8 & 0xF).bit_count()
    return sum(row[0] for row in struct.iter_unpack(f">I{width - 4}x", _table(trun, place, count, width)))


def _table(body: memoryview, place: int, count: int, width: int) -> memoryview:
    """So many rows; libraries have been seen to go round for hours in a table that claims more than it holds."""
    if place + count * width > len(body):
        raise IndexUnsound("its index claims more samples than it holds")
    return body[place : place + count * width]
