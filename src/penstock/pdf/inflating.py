"""How large streams become, counted while they are inflated piece by piece and given up at a cap.

A compression ratio says nothing (honest streams reach 1,000 to 1), and stated lengths lie, so only inflating
tells. Memory stays at one piece per filter whatever the stream holds.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Iterator

from pikepdf import Name, Stream

from penstock.pdf.reading import elements_of

_PIECE = 1 << 20
_SPACE = b"\x00\t\n\x0c\r "
_CLEAR, _END = 256, 257
Pieces = Iterator[bytes]


class TooManyFilters(Exception):
    """More filters than any honest stream has."""


def filters_of(stream: Stream) -> list[str]:
    found = [str(each) for each in elements_of(stream.stream_dict.get("/Filter")) if isinstance(each, Name)]
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


def expands(filters: list[str]) -> bool:
    """Whether a filter can make much of little."""
    return any(each in _EXPANDING for each in filters)


def _inflated(pieces: Pieces) -> Pieces:
    machine = zlib.decompressobj()
    for piece in pieces:
        data = piece
        while data and not machine.eof:
            try:
                made = machine.decompress(data, _PIECE)
            except zlib.error:
                return
            data = machine.unconsumed_tail
            if not made and not data:
                break
            yield made
        while not machine.eof:  # what it holds back when a piece was cut at the limit
            try:
                made = machine.decompress(b"", _PIECE)
            except zlib.error:
                return
            if not made:
                break
            yield made


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


def _unascii85(pieces: Pieces) -> Pieces:
    data = b"".join(pieces).strip(_SPACE).removeprefix(b"<~").partition(b"~")[0]
    try:
        yield base64.a85decode(data, ignorechars=_SPACE)
    except ValueError:
        return


def _unlzw(pieces: Pieces) -> Pieces:
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
            width = min(12, (len(table) + 1).bit_length())
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
