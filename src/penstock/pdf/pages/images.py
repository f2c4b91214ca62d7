"""The images of a page: where they are placed, and the picture of one of them.

Ids follow the order of the page's content, so the same id names the same image whenever the same bytes are read.
"""

import ctypes
import io
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec
from PIL import Image as Picture
from pypdfium2 import raw

from penstock.pdf.annotations import opened_as_shown
from penstock.pdf.matrices import Matrix, bounds_of, matrix_of, times
from penstock.pdf.opening import opened_document
from penstock.pdf.pages.model import Image
from penstock.pdf.pages.objects import Objects, handle_of, objects_of
from penstock.pdf.pages.png import png_of
from penstock.pdf.pages.sheet import Sheet, sheet_of

MOST_IMAGES = 500
_SPECK = 16  # pixels
_MOST_PIXELS = 16_000_000
_PHOTO = 1_000_000  # pixels from which on an opaque picture is better off as JPEG
_DIRECT = (
    raw.FPDF_COLORSPACE_DEVICEGRAY, raw.FPDF_COLORSPACE_DEVICERGB,
    raw.FPDF_COLORSPACE_CALGRAY, raw.FPDF_COLORSPACE_CALRGB, raw.FPDF_COLORSPACE_ICCBASED,
)  # fmt: skip
Placed = list[tuple[Image, Any]]


class NoSuchImage(Exception):
    """The page or the image is not there, or PDFium cannot decode it."""


@dataclass(slots=True)
class Room:
    """What pictures may still take of a call."""

    left: int  # bytes
    until: float  # of the monotonic clock


class ImageBytes(msgspec.Struct):
    """A picture as a file: PNG, or JPEG where it is one already or is large and opaque."""

    data: bytes
    media_type: str
    width: int
    height: int


def image_bytes(file: BinaryIO, page_number: int, image_id: str) -> ImageBytes:
    """The picture itself, at its own resolution as far as that is bounded, with the holes that its mask cuts."""
    with opened_document(file) as document, opened_as_shown(document, page_number - 1) as page:
        if page is None:
            raise NoSuchImage(f"page {page_number}")
        for image, item in placed(page, objects_of(page), sheet_of(page)):
            if image.id == image_id:
                return _picture(document, page, item)
    raise NoSuchImage(f"page {page_number}, {image_id}")


def images_bytes(file: BinaryIO, page_number: int, wanted: list[str], most_bytes: int) -> dict[str, ImageBytes]:
    """Several pictures of one page, as many as fit; one that cannot be decoded is left out."""
    found: dict[str, ImageBytes] = {}
    room = most_bytes
    with opened_document(file) as document, opened_as_shown(document, page_number - 1) as page:
        if page is None:
            raise NoSuchImage(f"page {page_number}")
        for image, item in placed(page, objects_of(page), sheet_of(page)):
            if image.id not in wanted:
                continue
            with suppress(NoSuchImage):
                made = _picture(document, page, item)
                if len(made.data) <= room:
                    found[image.id] = made
                    room -= len(made.data)
    return found


def is_speck(image: Image) -> bool:
    """Lines and dots, of which no picture is kept."""
    return min(image.pixel_width, image.pixel_height) < _SPECK


def pictures_of(document: Any, page: Any, images: Placed, room: Room) -> dict[str, ImageBytes] | None:
    """All pictures of a page that is open, but specks; None where they take more than the call has left.

    The last that is done with a page: an image is drawn by itself, with another matrix.
    """
    found: dict[str, ImageBytes] = {}
    for image, item in images[:MOST_IMAGES]:
        if is_speck(image):
            continue
        if time.monotonic() > room.until:
            return None
        with suppress(NoSuchImage):
            found[image.id] = _picture(document, page, item)
            room.left -= len(found[image.id].data)
        if room.left < 0:
            return None
    return found


def placed(page: Any, objects: Objects, sheet: Sheet) -> Placed:
    """Images that show on the page with their objects, in the order they are drawn; one more than there may be."""
    found: Placed = []
    for address, form in objects.images:
        if len(found) > MOST_IMAGES:
            break
        item = handle_of(address)
        box = sheet.share(*_displayed(item, form, sheet))
        if box.width <= 0 or box.height <= 0:
            continue
        about = _about(item, page)
        is_mask = about.colorspace == raw.FPDF_COLORSPACE_UNKNOWN and about.bits_per_pixel == 1
        image = Image(f"i{len(found) + 1}", box, about.width, about.height, is_mask=is_mask)
        found.append((image, item))
    return found


def _displayed(item: Any, form: Matrix, sheet: Sheet) -> tuple[float, float, float, float]:
    """An image is the unit square, placed by its matrix, those of its forms, and the display."""
    return bounds_of(times(times(matrix_of(item), form), sheet.matrix), 0.0, 0.0, 1.0, 1.0)


def _about(item: Any, page: Any) -> Any:
    about = raw.FPDF_IMAGEOBJ_METADATA()
    raw.FPDFImageObj_GetImageMetadata(item, page, about)
    return about


def _picture(document: Any, page: Any, item: Any) -> ImageBytes:
    about = _about(item, page)
    width, height = max(1, about.width), max(1, about.height)
    scale = min(1.0, math.sqrt(_MOST_PIXELS / (width * height)))
    matrix = raw.FS_MATRIX(max(1.0, width * scale), 0, 0, max(1.0, height * scale), 0, 0)
    raw.FPDFPageObj_SetMatrix(item, matrix)
    picture = _rendered(raw.FPDFImageObj_GetRenderedBitmap(document, page, item))
    if picture is None:
        raise NoSuchImage("PDFium cannot decode it")
    is_opaque = picture.mode != "RGBA" or picture.getchannel("A").getextrema() == (255, 255)
    if is_opaque and about.colorspace in _DIRECT and _filters(item) == [b"DCTDecode"]:
        return ImageBytes(_raw_data(item), "image/jpeg", about.width, about.height)
    shown = picture.convert("RGB") if is_opaque else picture
    if not (is_opaque and shown.width * shown.height > _PHOTO and about.bits_per_pixel != 1):
        return ImageBytes(png_of(shown), "image/png", shown.width, shown.height)
    data = io.BytesIO()
    shown.save(data, "JPEG", quality=90)
    return ImageBytes(data.getvalue(), "image/jpeg", shown.width, shown.height)


def _rendered(bitmap: Any) -> Picture.Image | None:
    if not bitmap:
        return None
    try:
        width, height = raw.FPDFBitmap_GetWidth(bitmap), raw.FPDFBitmap_GetHeight(bitmap)
        stride = raw.FPDFBitmap_GetStride(bitmap)
        pixels = ctypes.string_at(raw.FPDFBitmap_GetBuffer(bitmap), stride * height)
        kind = raw.FPDFBitmap_GetFormat(bitmap)
    finally:
        raw.FPDFBitmap_Destroy(bitmap)
    modes = {
        raw.FPDFBitmap_Gray: ("L", "L"),
        raw.FPDFBitmap_BGR: ("RGB", "BGR"),
        raw.FPDFBitmap_BGRx: ("RGB", "BGRX"),
        raw.FPDFBitmap_BGRA: ("RGBA", "BGRA"),
    }
    mode, order = modes.get(kind, ("RGBA", "BGRA"))
    return Picture.frombuffer(mode, (width, height), pixels, "raw", order, stride, 1)


def _filters(item: Any) -> list[bytes]:
    names = []
    for index in range(max(0, raw.FPDFImageObj_GetImageFilterCount(item))):
        name = ctypes.create_string_buffer(64)
        raw.FPDFImageObj_GetImageFilter(item, index, name, len(name))
        names.append(name.value)
    return names


def _raw_data(item: Any) -> bytes:
    size = raw.FPDFImageObj_GetImageDataRaw(item, None, 0)
    data = ctypes.create_string_buffer(size)
    raw.FPDFImageObj_GetImageDataRaw(item, data, size)
    return data.raw
