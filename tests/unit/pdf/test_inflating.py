"""Our counting decoders agree with qpdf's, and give up in time on what qpdf would not survive."""

import io
import random
import zlib

import pikepdf
import pytest
from tests.support.pdfs import document, stream

from penstock.pdf.inflating import TooManyFilters, pieces_of

ALL = pikepdf.StreamDecodeLevel.specialized
NOISE = random.Random(1).randbytes(5000)
SAMPLES = {"text": b"all work and no play " * 300, "runs": b"a" * 4000 + b"b" * 3000, "noise": NOISE, "nothing": b""}


def lzw(data: bytes) -> bytes:
    """The plainest encoder there is: the table is cleared before codes get wider."""
    bits = []
    for at in range(0, len(data), 200):
        bits += [256, *data[at : at + 200]]
    held = "".join(f"{code:09b}" for code in [*bits, 256, 257])
    return int(held.ljust(-(-len(held) // 8) * 8, "0"), 2).to_bytes(-(-len(held) // 8), "big")


def runs(data: bytes) -> bytes:
    out = bytearray()
    for at in range(0, len(data), 100):
        piece = data[at : at + 100]
        out += (
            bytes([257 - len(piece), piece[0]])
            if len(set(piece)) == 1 and len(piece) > 1
            else bytes([len(piece) - 1]) + piece
        )
    return bytes(out) + b"\x80"


def opened(body: bytes) -> tuple[pikepdf.Pdf, pikepdf.Stream]:
    pdf = pikepdf.open(io.BytesIO(document(objects={5: body})))
    return pdf, pdf.get_object(5, 0)


class TestDecoding:
    @pytest.mark.parametrize("sample", SAMPLES)
    @pytest.mark.parametrize(
        ("name", "encode"),
        [
            ("/FlateDecode", zlib.compress),
            ("/LZWDecode", lzw),
            ("/RunLengthDecode", runs),
            ("/ASCIIHexDecode", lambda data: data.hex().encode() + b">"),
            ("[/ASCIIHexDecode/FlateDecode]", lambda data: zlib.compress(data).hex().encode() + b">"),
            ("[/FlateDecode/RunLengthDecode]", lambda data: zlib.compress(runs(data))),
        ],
    )
    def test_a_filter_is_undone_as_qpdf_undoes_it(self, name, encode, sample):
        pdf, found = opened(stream(encode(SAMPLES[sample]), f"/Filter {name}", packed=False))
        with pdf:
            assert b"".join(pieces_of(found)) == found.read_bytes(ALL) == SAMPLES[sample]

    def test_lzw_of_a_real_encoder_is_read(self):
        image = pytest.importorskip("PIL.Image")
        made = io.BytesIO()
        image.new("L", (300, 200), 7).save(made, "TIFF", compression="tiff_lzw")
        made.seek(0)
        read = image.open(made)
        at, size = read.tag_v2[273], read.tag_v2[279]
        raw = b"".join(made.getvalue()[a : a + s] for a, s in zip(at[:1], size[:1], strict=True))
        rows = read.tag_v2.get(278, 200)
        pdf, found = opened(stream(raw, "/Filter/LZWDecode", packed=False))
        with pdf:
            assert b"".join(pieces_of(found)) == found.read_bytes() == b"\x07" * 300 * min(rows, 200)

    def test_pieces_are_small_however_much_comes_out(self):
        bomb = zlib.compress(bytes(200 << 20), 9)
        pdf, found = opened(stream(bomb, "/Filter/FlateDecode", packed=False))
        with pdf:
            sizes = [len(piece) for piece in pieces_of(found)]
        assert sum(sizes) == 200 << 20
        assert max(sizes) <= 1 << 20

    def test_damaged_data_ends_early_without_a_fuss(self):
        text = SAMPLES["text"] + NOISE
        pdf, found = opened(stream(zlib.compress(text)[:60] + b"\xff" * 99, "/Filter/FlateDecode", packed=False))
        with pdf:
            assert len(b"".join(pieces_of(found))) < len(text)

    def test_nobody_needs_nine_filters(self):
        pdf, found = opened(stream(b"", f"/Filter[{'/ASCIIHexDecode' * 9}]", packed=False))
        with pdf, pytest.raises(TooManyFilters):
            pieces_of(found)
