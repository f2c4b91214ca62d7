"""How large streams become, counted while they are inflated piece by piece and given up at a cap.

What comes before a fault is kept, as readers keep it. A compression ratio says nothing (honest streams reach 1,000
to 1), and stated lengths lie, so only inflating tells. Memory stays at one piece per filter whatever the stream holds.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

from pikepdf import Name, Stream

from penstock.pdf.predictors import undo_predictor
from penstock.pdf.reading import elements_of, text_of_name

_PIECE = 1 << 20
_SPACE = b"\x00\t\n\x0c\r "
_CLEAR, _END = 256, 257
_NOT_ASCII85 = re.compile(rb"[^!-uz]")
_GROUPS = re.compile(rb"z|[!-u]{1,5}")
Pieces = Iterator[bytes]


class TooManyFilters(Exception):
    """More filters than any honest stream has."""


def filters_of(stream: Stream) -> list[str]:
    found = [text_of_name(each) for each in elements_of(stream.stream_dict.get("/Filter")) if isinstance(each, Name)]
    if len(found) > 8:
        raise TooManyFilters
    return found


def pieces_of(stream: Stream) -> Pieces:
    """The content, up to the first filter that is an image's own; damaged data ends it early, as in readers."""
    pieces: Pieces = iter([stream.read_raw_bytes()])
    for name in filters_of(stream):
        decoder = _DECODERS.get(name)
        if decoder is None:
            break
        pieces = decoder(pieces)
    return pieces


def decodings_of(raw: bytes, filters: list[str], parameters: list[dict[str, int]], most: int) -> list[bytes]:
    """What readers may make of data, the likeliest first: they differ in what they do with faults and parameters."""
    found: list[bytes] = []
    for stops in (False, True):
        for heeds in (True, False):
            data = _decoded(raw, filters, parameters if heeds else [], most=most, stops=stops)
            if data not in found:
                found.append(data)
            if not any(parameters):
                break
        if not {"ASCII85Decode", "A85"} & set(filters):
            break
    return found


def _decoded(raw: bytes, filters: list[str], parameters: list[dict[str, int]], *, most: int, stops: bool) -> bytes:
    data = raw
    for index, name in enumerate(filters):
        given = parameters[index] if index < len(parameters) else {}
        pieces: Pieces = iter([data])
        if name in ("LZWDecode", "LZW"):
            pieces = _unlzw(pieces, given.get("EarlyChange", 1))
        elif name in ("ASCII85Decode", "A85"):
            pieces = _unascii85(pieces, stops=stops)
        elif f"/{name}" in _DECODERS:
            pieces = _DECODERS[f"/{name}"](pieces)
        elif name != "Crypt":
            break
        data = _up_to(pieces, most)
        if given.get("Predictor", 1) > 1:
            data = undo_predictor(data, given)
    return data


def _up_to(pieces: Pieces, most: int) -> bytes:
    data = bytearray()
    for piece in pieces:
        data += piece[: most - len(data)]
        if len(data) >= most:
            break
    return bytes(data)


def expands(filters: list[str]) -> bool:
    """Whether a filter can make much of little."""
    return any(each in _EXPANDING for each in filters)


def _inflated(pieces: Pieces) -> Pieces:
    """What comes before a fault is kept, and no checksum is looked at: readers show it too."""
    data = b"".join(pieces)
    made = False
    for start, bits in _starts(data):
        for piece in _deflated(data[start:], bits):
            made = True
            yield piece
        if made:
            return


def _starts(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the data may begin, and how it is wrapped: as written first, then as lenient readers try."""
    if _has_header(data):
        yield 2, -15
        return
    for skipped in range(1, 4):  # line ends before the data
        if _has_header(data[skipped:]) and not data[:skipped].strip(_SPACE):
            yield skipped + 2, -15
    if data.startswith(b"\x1f\x8b"):
        yield 0, 31
    yield from ((2, -15), (0, -15))


def _has_header(data: bytes) -> bool:
    return len(data) > 1 and data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0


def _deflated(data: bytes, bits: int) -> Pieces:
    machine, at, step, held = zlib.decompressobj(bits), 0, _PIECE, b""
    while not machine.eof:
        before, feed = machine.copy(), held or data[at : at + step]
        try:
            made = machine.decompress(feed, _PIECE)
        except zlib.error:
            if len(feed) <= 1:
                return
            # Again in smaller steps, up to the very byte.
            machine, at, step, held = before, at - len(held), min(step, len(feed)) // 16 or 1, b""
            continue
        at += 0 if held else len(feed)
        held = machine.unconsumed_tail
        if made:
            yield made
        elif not feed:
            return


def _unrun(pieces: Pieces) -> Pieces:
    data, at, made = b"".join(pieces), 0, bytearray()
    while at < len(data) and data[at] != 128:
        length = data[at]
        if length < 128:
            made += data[at + 1 : at + 2 + length]
            at += length + 2
        else:
            made += data[at + 1 : at + 2] * (257 - length)
            at += 2
        if len(made) >= _PIECE:
            yield bytes(made)
            made.clear()
    yield bytes(made)


def _unhexed(pieces: Pieces) -> Pieces:
    digits = re.sub(rb"[^0-9A-Fa-f]", b"", b"".join(pieces).partition(b">")[0])
    yield binascii.unhexlify(digits + b"0" * (len(digits) % 2))


def _unascii85(pieces: Pieces, *, stops: bool = False) -> Pieces:
    """A letter that is none is passed over, or with `stops` ends the data: readers do either."""
    data = b"".join(pieces).strip(_SPACE).removeprefix(b"<~").partition(b"~")[0].translate(None, _SPACE)
    odd = _NOT_ASCII85.search(data)
    if not odd:
        with suppress(ValueError):  # quicker; objects to a group that is too large
            yield base64.a85decode(data)
            return
    else:
        data = data[: odd.start()] if stops else _NOT_ASCII85.sub(b"", data)
    for group in _GROUPS.findall(data):
        if group == b"z":
            yield bytes(4)
            continue
        value = 0
        for letter in group.ljust(5, b"u"):
            value = value * 85 + letter - 33
        yield (value & 0xFFFFFFFF).to_bytes(4, "big")[: len(group) - 1]


def _unlzw(pieces: Pieces, early: int = 1) -> Pieces:
    """Codes of 9 to 12 bits, highest bit first, widened one code early as nearly every writer does."""
    table, previous, width = _fresh_table(), b"", 9
    made, held, bits = bytearray(), 0, 0
    for byte in b"".join(pieces):
        held, bits = (held << 8 | byte) & 0xFFFFFF, bits + 8
        if bits < width:
            continue
        bits -= width
        code = held >> bits & (1 << width) - 1
        if code == _END:
            break
        if code == _CLEAR:
            table, previous, width = _fresh_table(), b"", 9
            continue
        if code > len(table) or (code == len(table) and not previous):
            break
        entry = table[code] if code < len(table) else previous + previous[:1]
        if previous and len(table) < 4096:
            table.append(previous + entry[:1])
            width = min(12, (len(table) + early).bit_length())
        previous = entry
        made += entry
        if len(made) >= _PIECE:
            yield bytes(made)
            made.clear()
    yield bytes(made)


def _fresh_table() -> list[bytes]:
    return [bytes([each]) for each in range(256)] + [b"", b""]


_DECODERS: dict[str, Callable[[Pieces], Pieces]] = {
    "/FlateDecode": _inflated, "/Fl": _inflated,
    "/LZWDecode": _unlzw, "/LZW": _unlzw,
    "/RunLengthDecode": _unrun, "/RL": _unrun,
    "/ASCIIHexDecode": _unhexed, "/AHx": _unhexed,
    "/ASCII85Decode": _unascii85, "/A85": _unascii85,
}  # fmt: skip
_EXPANDING = {"/FlateDecode", "/Fl", "/LZWDecode", "/LZW", "/RunLengthDecode", "/RL"}
