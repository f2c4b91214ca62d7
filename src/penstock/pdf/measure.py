"""Measures pages with PDFium, in the sandbox: text, pictures and, only where these say nothing, ink.

Text PDFs are never rendered, so they cost little more than their text. A call stops by itself when its share
of time is over and returns what it has: the caller goes on from there, and one slow page among many is not a hang.
"""

import ctypes
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from pypdfium2 import raw

from penstock.pdf.matrices import IDENTITY, Matrix, matrix_of, times
from penstock.pdf.metrics import PageMetrics
from penstock.pdf.opening import opened_document, opened_page
from penstock.pdf.rendering import ink_of

SIZEABLE_IMAGE = 0.02  # of the page: 3.5 cm square on A4; smaller ones are judged by their ink
_MANY = 200  # from so many characters on, spaces among them make no difference
_FORM_DEPTH = 12
_OBJECTS = 200_000  # per page, all forms together
_INVISIBLE = raw.FPDF_TEXTRENDERMODE_INVISIBLE


@dataclass(slots=True)
class _Box:
    left: float
    bottom: float
    right: float
    top: float

    @property
    def area(self) -> float:
        return max(0.0, self.right - self.left) * max(0.0, self.top - self.bottom)

    def within(self, other: "_Box") -> "_Box":
        return _Box(
            max(self.left, other.left),
            max(self.bottom, other.bottom),
            min(self.right, other.right),
            min(self.top, other.top),
        )


@dataclass(slots=True)
class _Content:
    """What the objects of a page add up to."""

    images: int = 0
    image_area: float = 0.0
    seen_text: bool = False
    hidden_text: bool = False


def measure(file: BinaryIO, first: int, last: int, min_text_chars: int, seconds: float) -> list[PageMetrics]:
    """Pages `first` to `last`, both from 1 and included, or as many of them as the time allows; at least one."""
    until = time.monotonic() + seconds
    measured: list[PageMetrics] = []
    with opened_document(file) as document:
        for number in range(first, last + 1):
            with opened_page(document, number - 1) as page:
                measured.append(
                    PageMetrics(number, readable=False) if page is None else _page(page, number, min_text_chars)
                )
            if time.monotonic() > until:
                break
    return measured


def _page(page: Any, number: int, min_text_chars: int) -> PageMetrics:
    box = _box_of(page)
    content = _content_of(page, box)
    seen, hidden = _text(page, box, content)
    share = min(1.0, content.image_area / box.area) if box.area else 0.0
    judged_by_ink = seen < min_text_chars and share < SIZEABLE_IMAGE
    return PageMetrics(
        number=number,
        width=round(raw.FPDF_GetPageWidthF(page), 2),
        height=round(raw.FPDF_GetPageHeightF(page), 2),
        rotation=max(0, raw.FPDFPage_GetRotation(page)) * 90,
        text_chars=seen,
        hidden_chars=hidden,
        image_count=content.images,
        image_share=round(share, 4),
        ink=ink_of(page) if judged_by_ink else None,
    )


def _box_of(page: Any) -> _Box:
    rect = raw.FS_RECTF()
    if not raw.FPDF_GetPageBoundingBox(page, rect):
        return _Box(0, 0, 612, 792)
    return _Box(rect.left, min(rect.bottom, rect.top), rect.right, max(rect.bottom, rect.top))


def _content_of(page: Any, box: _Box) -> _Content:
    content, left = _Content(), _OBJECTS
    for item, kind, matrix in _objects(page):
        left -= 1
        if not left:
            break
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            if content.seen_text and content.hidden_text:
                continue
            if raw.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE:
                content.hidden_text = True
            else:
                content.seen_text = True
        elif kind == raw.FPDF_PAGEOBJ_IMAGE:
            area = _placed(item, matrix).within(box).area
            if area > 0:
                content.images += 1
                content.image_area += area
    return content


def _objects(page: Any) -> Iterator[tuple[Any, int, Matrix]]:
    """All objects, those of forms included, with the matrix of the forms they are in."""
    for index in range(raw.FPDFPage_CountObjects(page)):
        yield from _unfolded(raw.FPDFPage_GetObject(page, index), IDENTITY, 0)


def _unfolded(item: Any, matrix: Matrix, depth: int) -> Iterator[tuple[Any, int, Matrix]]:
    kind = raw.FPDFPageObj_GetType(item)
    if kind != raw.FPDF_PAGEOBJ_FORM:
        yield item, kind, matrix
    elif depth < _FORM_DEPTH:
        inner = times(matrix_of(item), matrix)
        for index in range(max(0, raw.FPDFFormObj_CountObjects(item))):
            yield from _unfolded(raw.FPDFFormObj_GetObject(item, index), inner, depth + 1)


def _placed(image: Any, matrix: Matrix) -> _Box:
    """An image is the unit square, placed by its matrix."""
    a, b, c, d, e, f = times(matrix_of(image), matrix)
    across, up = (e, e + a, e + c, e + a + c), (f, f + b, f + d, f + b + d)
    return _Box(min(across), min(up), max(across), max(up))


def _text(page: Any, box: _Box, content: _Content) -> tuple[int, int]:
    """Letters that are seen, and letters that are not."""
    if not content.seen_text and not content.hidden_text:
        return 0, 0
    text_page = raw.FPDFText_LoadPage(page)
    if not text_page:
        return 0, 0
    try:
        if content.seen_text and content.hidden_text:
            return _told_apart(text_page, box)
        count = _letters(text_page, box)
        return (count, 0) if content.seen_text else (0, count)
    finally:
        raw.FPDFText_ClosePage(text_page)


def _letters(text_page: Any, box: _Box) -> int:
    bounds = (box.left, box.top, box.right, box.bottom)
    count = int(raw.FPDFText_GetBoundedText(text_page, *bounds, None, 0))
    if count > _MANY or not count:
        return count
    buffer = (ctypes.c_ushort * count)()
    raw.FPDFText_GetBoundedText(text_page, *bounds, buffer, count)
    text = bytes(buffer).decode("utf-16-le", errors="replace")
    return sum(1 for each in text if not each.isspace() and each != "\x00")


def _told_apart(text_page: Any, box: _Box) -> tuple[int, int]:
    """Letter by letter; only for pages that have both kinds."""
    counts = {True: 0, False: 0}
    modes: dict[int, bool] = {}
    x, y = ctypes.c_double(), ctypes.c_double()
    for index in range(min(raw.FPDFText_CountChars(text_page), _OBJECTS)):
        if chr(raw.FPDFText_GetUnicode(text_page, index)).isspace():
            continue
        raw.FPDFText_GetCharOrigin(text_page, index, x, y)
        if not (box.left <= x.value <= box.right and box.bottom <= y.value <= box.top):
            continue
        item = raw.FPDFText_GetTextObject(text_page, index)
        address = ctypes.cast(item, ctypes.c_void_p).value or 0
        if address not in modes:
            modes[address] = bool(item) and raw.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE
        counts[modes[address]] += 1
    return counts[False], counts[True]
