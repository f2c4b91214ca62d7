"""PDFs for tests, written byte by byte so that every hiding place is exactly where a test says."""

import io
import os
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pikepdf
from PIL import Image

from penstock.pdf import PrescanRules

A4 = (595, 842)
RULES = PrescanRules(
    min_text_chars_for_blank=10,
    max_ink_for_blank=0.0005,
    ocr_rate_penalty_threshold=0.3,
    ocr_rate_penalty_weight=0.15,
    no_images_penalty_weight=0.1,
)
FONT = "<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
JS = "<</S/JavaScript/JS(app.alert\\(1\\);)>>"


def material() -> Path | None:
    """The folder of shared test material, where there is one."""
    root = Path(__file__).parents[2]
    found = Path(os.environ.get("PENSTOCK_TEST_DATA", root.parent / "shared" / "data"))
    return found if found.is_dir() else None


def stream(data: bytes, extra: str = "", *, packed: bool = True) -> bytes:
    if packed:
        data, extra = zlib.compress(data, 9), extra + "/Filter/FlateDecode"
    return f"<<{extra}/Length {len(data)}>>stream\n".encode() + data + b"\nendstream"


def differences(data: bytes) -> bytes:
    """Rows of four bytes, each as its difference from the row above."""
    rows = [bytes(4), *(data[start : start + 4] for start in range(0, len(data), 4))]
    made = bytearray()
    for above, row in pairwise(rows):
        made += b"\x02" + bytes((this - that) % 256 for this, that in zip(row, above, strict=True))
    return bytes(made)


def written(objects: Mapping[int, str | bytes], trailer: str = "") -> bytes:
    """A file of these objects; object 1 is the catalogue."""
    out, offsets = bytearray(b"%PDF-1.7\n"), {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(out)
        out += b"%d 0 obj\n" % number + (body if isinstance(body, bytes) else body.encode("latin-1")) + b"\nendobj\n"
    start, size = len(out), max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        out += b"%010d 00000 n \n" % offsets[number] if number in offsets else b"0000000000 00000 f \n"
    return bytes(out) + f"trailer\n<</Size {size}/Root 1 0 R{trailer}>>\nstartxref\n{start}\n%%EOF\n".encode()


def document(
    catalogue: str = "",
    page: str = "",
    content: bytes = b"",
    objects: Mapping[int, str | bytes] | None = None,
    resources: str = FONT,
) -> bytes:
    """One page of A4. 1 is the catalogue, 2 the page tree, 3 the page, 4 its content; further objects from 5 on."""
    box = "" if "/MediaBox" in page else "/MediaBox[0 0 595 842]"
    return written(
        {
            1: f"<</Type/Catalog/Pages 2 0 R{catalogue}>>",
            2: "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            3: f"<</Type/Page/Parent 2 0 R{box}/Contents 4 0 R/Resources{resources}{page}>>",
            4: stream(content),
            **(objects or {}),
        }
    )


def text_pages(count: int, lines: int = 40) -> bytes:
    """A book of plain text."""
    kids = " ".join(f"{10 + 2 * index} 0 R" for index in range(count))
    objects: dict[int, str | bytes] = {
        1: "<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Kids[{kids}]/Count {count}/MediaBox[0 0 595 842]/Resources{FONT}>>",
    }
    for index in range(count):
        objects[10 + 2 * index] = f"<</Type/Page/Parent 2 0 R/Contents {11 + 2 * index} 0 R>>"
        objects[11 + 2 * index] = stream(_lines(index, lines))
    return written(objects)


def _lines(page: int, lines: int) -> bytes:
    said = "The quick brown fox jumps over the lazy dog and does not look back at it"
    shown = "".join(f"({page}.{line} {said}) Tj T* " for line in range(lines))
    return f"BT /F 10 Tf 12 TL 60 780 Td {shown} ET".encode()


def picture_pages(pictures: Sequence[Path]) -> bytes:
    """Scans: each page is one picture."""
    opened = [Image.open(path).convert("L") for path in pictures]
    made = io.BytesIO()
    opened[0].save(made, "PDF", save_all=True, append_images=opened[1:], resolution=150)
    return made.getvalue()


def packed(data: bytes) -> bytes:
    """The same document with its objects in object streams."""
    made = io.BytesIO()
    with pikepdf.open(io.BytesIO(data)) as pdf:
        pdf.save(made, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return made.getvalue()


def encrypted(data: bytes, user: str) -> bytes:
    made = io.BytesIO()
    with pikepdf.open(io.BytesIO(data)) as pdf:
        pdf.save(made, encryption=pikepdf.Encryption(owner="owner", user=user))
    return made.getvalue()


def hybrid(catalogue: str, hidden: str, *, updated: bool = False) -> bytes:
    """Object 7 is in an object stream that only the stream beside the table tells of; the table calls it free."""
    out, offsets = bytearray(b"%PDF-1.5\n"), {}
    kept: dict[int, bytes] = {
        1: f"<</Type/Catalog/Pages 2 0 R{catalogue}>>".encode(),
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]>>",
        6: stream(b"7 0 " + hidden.encode(), "/Type/ObjStm/N 1/First 4"),
        8: stream(b"\x02\x00\x06\x00", "/Type/XRef/Size 9/W[1 2 1]/Index[7 1]/Root 1 0 R"),
    }
    for number, body in kept.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 9\n0000000000 65535 f \n"
    for number in range(1, 9):
        out += b"%010d 00000 n \n" % offsets[number] if number in offsets else b"0000000000 65535 f \n"
    out += b"trailer\n<</Size 9/Root 1 0 R/XRefStm %d>>\nstartxref\n%d\n%%%%EOF\n" % (offsets[8], start)
    if updated:
        end = len(out)
        out += b"xref\n0 0\ntrailer\n<</Size 9/Root 1 0 R/Prev %d>>\nstartxref\n%d\n%%%%EOF\n" % (start, end)
    return bytes(out)
