"""What the MinerU stand-ins send back: the same made-up pages in each family's shape and unit, good or hostile."""

import base64
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT = 595.0, 842.0
TABLE = (
    "<html><body><table><tr><th colspan='2'>Item &amp; size</th><th>Price</th></tr>"
    "<tr><td rowspan='2'>杯子</td><td>small</td><td>3.50</td></tr>"
    "<tr><td>large</td><td>4.00<br>net</td></tr></table></body></html>"
)
CAPTION = "Table 1. Prices"
TABLE_BOX, PICTURE_BOX = (100, 300, 900, 500), (100, 600, 500, 800)  # of 1000


def picture(number: int) -> bytes:
    """A real PNG of one pixel, another one for each page."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(bytes([0, number % 256, number // 256 % 256, 7]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def image_name(number: int) -> str:
    return f"{number:064x}.jpg"  # they call every picture so


def text_of(number: int) -> tuple[str, str]:
    """The two lines of a page's paragraph."""
    return f"Page {number} begins here", f"and ends with the number {number * 7}."


def markdown(numbers: Sequence[int]) -> str:
    return "\n\n".join(
        f"# Chapter {number}\n\n{' '.join(text_of(number))}\n\n{CAPTION}\n\n{TABLE}\n\n![](images/{image_name(number)})"
        for number in numbers
    )


def content_list(numbers: Sequence[int], *, flaw: str = "") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for index, number in enumerate(numbers):
        where = {"page_idx": number - 1 if flaw == "document_numbers" else index}
        items += [
            {"type": "header", "text": "Catalogue", "bbox": [100, 20, 300, 40], **where},
            {"type": "text", "text": f"Chapter {number}", "text_level": 1, "bbox": [100, 60, 900, 100], **where},
            {"type": "text", "text": " ".join(text_of(number)), "bbox": [100, 120, 900, 180], **where},
            {"type": "list", "list_items": ["first", "second"], "bbox": [100, 200, 900, 280], **where},
            {"type": "table", "table_body": TABLE, "table_caption": [CAPTION], "table_footnote": ["net prices"],
             "img_path": "", "bbox": list(TABLE_BOX), **where},
            {"type": "image", "img_path": f"images/{image_name(number)}", "image_caption": ["A cup"],
             "image_footnote": [], "bbox": list(PICTURE_BOX), **where},
        ]  # fmt: skip
    return items[::-1] if flaw == "wrong_order" else items


def pdf_info(numbers: Sequence[int], *, flaw: str = "") -> dict[str, Any]:
    """`middle.json` of 2.x and 3.x, `layout.json` of the hosted service: points."""
    pages = []
    for index, number in enumerate(numbers):
        lines = [
            {"bbox": points(100, 120 + 30 * row, 900, 150 + 30 * row),
             "spans": [{"bbox": points(100, 120 + 30 * row, 800, 148 + 30 * row), "content": text,
                        "score": 0.9 + row / 100, "type": "text"}]}
            for row, text in enumerate(text_of(number))
        ]  # fmt: skip
        pages.append({
            "page_idx": number - 1 if flaw == "document_numbers" else index,
            "page_size": [WIDTH, HEIGHT],
            "para_blocks": [
                {"type": "title", "bbox": points(100, 60, 900, 100), "level": 1,
                 "lines": [{"bbox": points(100, 60, 900, 100), "spans": [
                     {"bbox": points(100, 60, 400, 100), "content": f"Chapter {number}", "type": "text"}]}]},
                {"type": "text", "bbox": points(100, 120, 900, 180), "lines": lines},
                {"type": "table", "bbox": points(*TABLE_BOX), "blocks": [
                    {"type": "table_caption", "bbox": points(100, 300, 900, 320), "lines": [
                        {"bbox": points(100, 300, 900, 320), "spans": [
                            {"bbox": points(100, 300, 400, 320), "content": CAPTION, "type": "text"}]}]},
                    {"type": "table_body", "bbox": points(*TABLE_BOX), "lines": [
                        {"bbox": points(*TABLE_BOX), "spans": [
                            {"bbox": points(*TABLE_BOX), "type": "table", "html": TABLE, "image_path": ""}]}]}]},
                {"type": "image", "bbox": points(*PICTURE_BOX), "blocks": [
                    {"type": "image_body", "bbox": points(*PICTURE_BOX), "lines": [
                        {"bbox": points(*PICTURE_BOX), "spans": [
                            {"bbox": points(*PICTURE_BOX), "type": "image",
                             "image_path": f"images/{image_name(number)}"}]}]}]},
            ],
            "discarded_blocks": [{"type": "header", "bbox": points(100, 20, 300, 40), "lines": [
                {"bbox": points(100, 20, 300, 40), "spans": [
                    {"bbox": points(100, 20, 300, 40), "content": "Catalogue", "type": "text"}]}]}],
        })  # fmt: skip
    return {"pdf_info": pages, "_backend": "pipeline", "_version_name": "3.4.4"}


def middle4(numbers: Sequence[int]) -> dict[str, Any]:
    """`middle_json` of 4.x: shares of the page; page numbers are the document's own, even of a part."""
    pages = []
    for number in numbers:
        words = [{"type": "text", "content": f"{text_of(number)[0]} "},
                 {"type": "hyperlink", "url": "https://example.com",
                  "content": [{"type": "text", "content": text_of(number)[1], "styles": ["bold"]}]}]  # fmt: skip
        item = {"type": "text", "content": [{"type": "text", "content": "first"}]}
        other = {"type": "text", "content": [{"type": "text", "content": "second"}]}
        pages.append({"page_idx": number - 1, "blocks": [
            {"type": "header", "index": 0, "bbox": [0.1, 0.02, 0.3, 0.04],
             "content": [{"type": "text", "content": "Catalogue"}]},
            {"type": "doc_title", "index": 1, "level": 1, "bbox": [0.1, 0.06, 0.9, 0.1],
             "content": [{"type": "text", "content": f"Chapter {number}"}]},
            {"type": "text", "index": 2, "bbox": [0.1, 0.12, 0.9, 0.18], "content": words},
            {"type": "list", "index": 3, "bbox": [0.1, 0.2, 0.9, 0.28],
             "content": [item, {"type": "list", "content": [other]}]},
            {"type": "table", "index": 4, "bbox": [0.1, 0.3, 0.9, 0.5], "content": [
                {"type": "table_caption", "content": [{"type": "text", "content": CAPTION}]},
                {"type": "table_body", "index": 4, "bbox": [0.1, 0.3, 0.9, 0.5], "content": TABLE},
                {"type": "table_footnote", "content": [{"type": "text", "content": "net prices"}]}]},
            {"type": "image", "index": 5, "bbox": [0.1, 0.6, 0.5, 0.8], "content": [
                {"type": "image_body", "index": 5, "bbox": [0.1, 0.6, 0.5, 0.8], "content": "",
                 "image_path": f"images/{image_name(number)}"},
                {"type": "image_caption", "content": [{"type": "text", "content": "A cup"}]}]},
        ]})  # fmt: skip
    return {
        "schema": "docvortex.middle", "schema_version": "2.0", "is_full_document": True, "extensions": {},
        "metadata": {"file_suffix": "pdf", "producer": {"name": "mineru", "version": "4.0.12"}}, "pages": pages,
    }  # fmt: skip


def points(x0: float, y0: float, x1: float, y1: float) -> list[float]:
    return [x0 * WIDTH / 1000, y0 * HEIGHT / 1000, x1 * WIDTH / 1000, y1 * HEIGHT / 1000]


def files(family: str, numbers: Sequence[int], flaw: str = "") -> dict[str, bytes]:
    """What is in an archive, by family."""
    said = [number for number in numbers if not (flaw == "partial" and number == max(numbers))]
    made = {f"images/{image_name(number)}": picture(number) for number in said}
    text = markdown(said).encode()
    if family == "v4":
        return {"markdown.md": text, "middle_json.json": _json(middle4(said)), "structured_content.json": b"{}", **made}
    listed, layout = _json(content_list(said, flaw=flaw)), _json(pdf_info(said, flaw=flaw))
    if family == "hosted":
        parts = {"full.md": text, "layout.json": layout, "0f-uuid_content_list.json": listed,
                 "content_list_v2.json": b"[]", "0f-uuid_model.json": b"[]", **made}  # fmt: skip
    else:
        folder = "doc/auto" if family == "v3" else "doc"
        parts = {
            f"{folder}/doc.md": text,
            f"{folder}/doc_middle.json": layout,
            f"{folder}/doc_content_list.json": listed,
        }
        parts |= {f"{folder}/{name}": data for name, data in made.items()}
    if flaw == "no_content_list":
        return {name: data for name, data in parts.items() if not name.endswith("content_list.json")}
    if flaw == "only_content_list":
        return {name: data for name, data in parts.items() if not name.endswith(("layout.json", "middle.json"))}
    return parts


def archive(family: str, numbers: Sequence[int], flaw: str = "") -> bytes:
    """A zip; `flaw` makes it one that nobody should unpack."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files(family, numbers, flaw).items():
            packed.writestr(name, data)
        _spoil(packed, flaw)
    data = made.getvalue()
    if flaw == "damaged":
        middle = len(data) // 3
        return data[:middle] + bytes(64) + data[middle + 64 :]
    if flaw == "torn":
        return data[: len(data) // 2]
    return data


def _spoil(packed: zipfile.ZipFile, flaw: str) -> None:
    names = {"parent": "images/../../../etc/cron.d/x", "absolute": "/etc/passwd", "drive": "C:/x.txt"}
    if flaw in names:
        packed.writestr(names[flaw], b"x")
    elif flaw == "symlink":
        link = zipfile.ZipInfo("images/link.jpg")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "/etc/passwd")
    elif flaw == "bomb":
        packed.writestr("images/bomb.jpg", bytes(64 * 1024 * 1024))
    elif flaw == "many":
        for number in range(3000):
            packed.writestr(f"images/{number}.txt", b"")
    elif flaw == "not_a_picture":
        packed.writestr("images/x", b"<script>alert(1)</script>")


def as_json(numbers: Sequence[int]) -> dict[str, Any]:
    """How servers of 2.x and 3.x answer without a zip: JSON in strings, pictures as data URIs."""
    return {"backend": "pipeline", "version": "2.7.6", "results": {"doc": {
        "md_content": markdown(numbers),
        "middle_json": json.dumps(pdf_info(numbers)),
        "content_list": json.dumps(content_list(numbers)),
        "images": {image_name(number): "data:image/jpeg;base64," + base64.b64encode(picture(number)).decode()
                   for number in numbers},
    }}}  # fmt: skip


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
