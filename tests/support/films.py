"""Films without a camera: MP4 and QuickTime files, box by box, right and wrong."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_MATRIX = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_SPS = bytes.fromhex("6742c00ad90784ed40400000030040000000c83c489920")
_PPS = bytes.fromhex("68cb8f20")
SCALE = 1000
FRAMES = 10


def box(kind: bytes, *parts: bytes, wide: bool = False) -> bytes:
    body = b"".join(parts)
    if wide:  # the size in 64 bits
        return struct.pack(">I4sQ", 1, kind, len(body) + 16) + body
    return struct.pack(">I4s", len(body) + 8, kind) + body


def _full(kind: bytes, *parts: bytes, version: int = 0, flags: int = 0) -> bytes:
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


@dataclass(frozen=True)
class Film:
    """`seconds` is what the samples last; `says` what the headers claim, where that is something else."""

    seconds: float = 12.5
    says: float | None = None
    picture: bool = True
    sound: bool = False
    brand: bytes = b"isom"
    wide: bool = False

    def mp4(self) -> bytes:
        """The index before the data."""
        start = len(self.ftyp()) + len(self._moov(0))
        return self.ftyp() + self._moov(start + (16 if self.wide else 8)) + self._mdat()

    def index_last(self) -> bytes:
        head = self.ftyp()
        return head + self._mdat() + self._moov(len(head) + (16 if self.wide else 8))

    def without_index(self) -> bytes:
        return self.ftyp() + self._mdat()

    def fragmented(self, pieces: int = 5) -> bytes:
        """The header knows of no samples; each piece brings its own."""
        made = self.ftyp() + self._moov(0, fragmented=True)
        frames, step = int(self.seconds * FRAMES), SCALE // FRAMES
        each = frames // pieces
        for number in range(pieces):
            count = each if number < pieces - 1 else frames - each * (pieces - 1)
            made += _piece(number + 1, number * each * step, count, step)
        return made

    def ftyp(self) -> bytes:
        others = b"qt  " if self.brand == b"qt  " else b"isommp42avc1"
        return box(b"ftyp", self.brand, struct.pack(">I", 512), others)

    def _mdat(self) -> bytes:
        count = self._count()
        return box(b"mdat", _frame() * count if self.picture else b"\x00" * (64 * count), wide=self.wide)

    def _count(self) -> int:
        return max(1, int(self.seconds * FRAMES))

    def _moov(self, data_at: int, *, fragmented: bool = False) -> bytes:
        said = int((self.seconds if self.says is None else self.says) * SCALE)
        claimed = 0 if fragmented and self.says is None else said
        mvhd = _full(b"mvhd", struct.pack(">IIII", 0, 0, SCALE, claimed), struct.pack(">IH", 0x10000, 0x100),
                     b"\0" * 10, _MATRIX, b"\0" * 24, struct.pack(">I", 3))  # fmt: skip
        tracks = []
        if self.picture:
            tracks.append(self._track(1, claimed, data_at, b"vide", fragmented=fragmented))
        if self.sound:
            tracks.append(self._track(2, claimed, data_at, b"soun", fragmented=fragmented))
        more = [box(b"mvex", _full(b"trex", struct.pack(">5I", 1, 1, SCALE // FRAMES, len(_frame()), 0)))]
        return box(b"moov", mvhd, *tracks, *(more if fragmented else []))

    def _track(self, number: int, claimed: int, data_at: int, handler: bytes, *, fragmented: bool) -> bytes:
        seen = handler == b"vide"
        size = (320 << 16, 240 << 16) if seen else (0, 0)
        tkhd = _full(b"tkhd", struct.pack(">IIIII", 0, 0, number, 0, claimed), b"\0" * 16, _MATRIX,
                     struct.pack(">II", *size), flags=7)  # fmt: skip
        mdhd = _full(b"mdhd", struct.pack(">IIIIHH", 0, 0, SCALE, claimed, 0x55C4, 0))
        hdlr = _full(b"hdlr", b"\0" * 4, handler, b"\0" * 12, b"x\0")
        head = _full(b"vmhd", b"\0" * 8, flags=1) if seen else _full(b"smhd", b"\0" * 4)
        dinf = box(b"dinf", _full(b"dref", struct.pack(">I", 1), _full(b"url ", flags=1)))
        count = 0 if fragmented else self._count()
        size_of_each = len(_frame()) if seen else 64
        stbl = box(
            b"stbl",
            _full(b"stsd", struct.pack(">I", 1), _avc1() if seen else _sowt()),
            _full(
                b"stts",
                struct.pack(">I", 1 if count else 0),
                struct.pack(">II", count, SCALE // FRAMES) if count else b"",
            ),
            _full(b"stsc", struct.pack(">I", 1 if count else 0), struct.pack(">III", 1, count, 1) if count else b""),
            _full(b"stsz", struct.pack(">II", size_of_each if count else 0, count)),
            _full(b"stco", struct.pack(">I", 1 if count else 0), struct.pack(">I", data_at) if count else b""),
        )
        return box(b"trak", tkhd, box(b"mdia", mdhd, hdlr, box(b"minf", head, dinf, stbl)))


def webm(seconds: float = 12.5) -> bytes:
    picture = _element("e0", _element("b0", b"\x01\x40"), _element("ba", b"\xf0"))
    track = _element("ae", _element("d7", b"\1"), _element("73c5", b"\1"), _element("83", b"\1"),
                     _element("86", b"V_VP8"), picture)  # fmt: skip
    lasting = _element("4489", struct.pack(">d", seconds * 1000))
    info = _element("1549a966", _element("2ad7b1", b"\x0f\x42\x40"), lasting, _element("4d80", b"films"))
    cluster = _element("1f43b675", _element("e7", b"\0"), _element("a3", b"\x81\0\0\x80" + b"\x5a" * 40))
    head = _element("1a45dfa3", _element("4282", b"webm"), _element("4287", b"\2"), _element("4285", b"\2"))
    return head + _element("18538067", info, _element("1654ae6b", track), cluster)


def _element(number: str, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes.fromhex(number) + struct.pack(">Q", len(body) | 1 << 56) + body


def claiming(content: bytes, table: bytes, samples: int) -> bytes:
    """The first table of this name says that it has so many rows."""
    place = content.index(table) + 8
    return content[:place] + struct.pack(">I", samples) + content[place + 4 :]


def tiny_boxes(size: int) -> bytes:
    """Nothing but empty boxes: long to walk."""
    return Film().ftyp() + box(b"free") * (size // 8)


def _frame() -> bytes:
    unit = bytes.fromhex("65888404bc") + b"\x5a" * 59
    return struct.pack(">I", len(unit)) + unit


def _avc1() -> bytes:
    avcc = box(b"avcC", b"\x01\x42\xc0\x0a\xff\xe1", struct.pack(">H", len(_SPS)), _SPS, b"\x01",
               struct.pack(">H", len(_PPS)), _PPS)  # fmt: skip
    return box(b"avc1", b"\0" * 6, struct.pack(">H", 1), b"\0" * 16, struct.pack(">HH", 320, 240),
               struct.pack(">III", 0x480000, 0x480000, 0), struct.pack(">H", 1), b"\0" * 32,
               struct.pack(">Hh", 24, -1), avcc)  # fmt: skip


def _sowt() -> bytes:
    return box(b"sowt", b"\0" * 6, struct.pack(">H", 1), b"\0" * 8, struct.pack(">HHHHI", 1, 16, 0, 0, 8000 << 16))


def _piece(number: int, begins: int, count: int, step: int) -> bytes:
    data = _frame() * count
    sizes = b"".join(struct.pack(">II", step, len(_frame())) for _ in range(count))

    def moof(offset: int) -> bytes:
        traf = box(
            b"traf",
            _full(b"tfhd", struct.pack(">I", 1), flags=0x20000),
            _full(b"tfdt", struct.pack(">Q", begins), version=1),
            _full(b"trun", struct.pack(">Ii", count, offset), sizes, flags=0x301),
        )
        return box(b"moof", _full(b"mfhd", struct.pack(">I", number)), traf)

    return moof(len(moof(0)) + 8) + box(b"mdat", data)


def with_lying_box(kind: bytes, size: int, content: Sequence[bytes] = ()) -> bytes:
    """After the type of the file, a box that claims to be as large as that."""
    head = struct.pack(">I4sQ", 1, kind, size) if size >= 1 << 32 else struct.pack(">I4s", size, kind)
    return Film().ftyp() + head + b"".join(content)
