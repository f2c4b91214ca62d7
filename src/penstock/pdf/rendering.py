"""Turns pages into pictures with PDFium, in the sandbox; never more pixels than allowed, whatever a page says."""

import ctypes
import io
import math
from typing import Any, BinaryIO, Protocol

from PIL import Image
from pypdfium2 import raw

from penstock.pdf.metrics import RenderedPage
from penstock.pdf.opening import opened_document, opened_page

_SMALL_SIDE = 640  # pixels of the longer side when only ink is asked for: fine enough for a hairline
_FLAGS = raw.FPDF_ANNOT
_LONGEST = 16_000  # pixels of a side: WebP knows 16,383
_WHITE = 0xFFFFFFFF
_SAVING: dict[str, dict[str, Any]] = {
    "PNG": {"compress_level": 3},
    "JPEG": {"quality": 85},
    "WEBP": {"quality": 80, "method": 2},
}


class Part(Protocol):
    """A rectangle in shares of the page, from the top left corner."""

    @property
    def x0(self) -> float: ...
    @property
    def y0(self) -> float: ...
    @property
    def x1(self) -> float: ...
    @property
    def y1(self) -> float: ...


class NoSuchPage(Exception):
    """The page is not there, or PDFium cannot load it."""


def render(file: BinaryIO, number: int, dpi: float, picture_format: str, max_pixels: int) -> RenderedPage:
    """A page from 1 as PNG, JPEG or WEBP; the resolution is lowered where the picture would get too large."""
    with opened_document(file) as document, opened_page(document, number - 1) as page:
        if page is None:
            raise NoSuchPage(f"page {number}")
        picture = drawn(page, _scale(page, dpi / 72, max_pixels), raw.FPDFBitmap_BGR)
    data = io.BytesIO()
    picture.save(data, picture_format, **_SAVING[picture_format])
    return RenderedPage(data.getvalue(), picture.width, picture.height)


def drawn_page(file: BinaryIO, number: int, dpi: float, max_pixels: int) -> tuple[Image.Image, float]:
    """A page from 1 in RGB, and the resolution it really has."""
    with opened_document(file) as document, opened_page(document, number - 1) as page:
        if page is None:
            raise NoSuchPage(f"page {number}")
        scale = _scale(page, dpi / 72, max_pixels)
        return drawn(page, scale, raw.FPDFBitmap_BGR), scale * 72


def ink_of(page: Any) -> float:
    """How much of the page differs from its background, by how much, from 0 to 1.

    The background is the commonest shade, so an empty page on coloured paper has no ink.
    """
    longer = max(raw.FPDF_GetPageWidthF(page), raw.FPDF_GetPageHeightF(page), 1.0)
    counts = drawn(page, _SMALL_SIDE / longer, raw.FPDFBitmap_Gray).histogram()
    paper = max(range(256), key=counts.__getitem__)
    reach = max(paper, 255 - paper)
    total = sum(count * abs(shade - paper) for shade, count in enumerate(counts))
    return round(total / reach / sum(counts), 7)


def _scale(page: Any, wanted: float, max_pixels: int) -> float:
    width, height = float(raw.FPDF_GetPageWidthF(page)), float(raw.FPDF_GetPageHeightF(page))
    return min(wanted, math.sqrt(max_pixels / max(width * height, 1e-6)), _LONGEST / max(width, height, 1e-6))


def drawn(page: Any, scale: float, kind: int, part: Part | None = None) -> Image.Image:
    """The page, or a part of it, as a picture in memory; the caller bounds the scale."""
    full_width, full_height = raw.FPDF_GetPageWidthF(page) * scale, raw.FPDF_GetPageHeightF(page) * scale
    whole = max(1, math.floor(full_width)), max(1, math.floor(full_height))
    left, top, width, height = 0, 0, *whole
    if part is not None:
        left, top = math.floor(part.x0 * whole[0]), math.floor(part.y0 * whole[1])
        width, height = max(1, math.ceil(part.x1 * whole[0]) - left), max(1, math.ceil(part.y1 * whole[1]) - top)
    bitmap = raw.FPDFBitmap_CreateEx(width, height, kind, None, 0)
    if not bitmap:
        raise MemoryError("PDFium has no room for the bitmap")
    try:
        raw.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, _WHITE)
        raw.FPDF_RenderPageBitmap(bitmap, page, -left, -top, *whole, 0, _FLAGS)
        stride = raw.FPDFBitmap_GetStride(bitmap)
        pixels = ctypes.string_at(raw.FPDFBitmap_GetBuffer(bitmap), stride * height)
    finally:
        raw.FPDFBitmap_Destroy(bitmap)
    mode, order = ("L", "L") if kind == raw.FPDFBitmap_Gray else ("RGB", "BGR")
    return Image.frombuffer(mode, (width, height), pixels, "raw", order, stride, 1)
