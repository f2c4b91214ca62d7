"""The images of a page: where they are placed, and the picture of one of them, upright as the page shows it.

Ids follow the order of the page's content, so the same id names the same image whenever the same bytes are read.
"""

import hashlib
import io
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

import msgspec
from PIL import Image as Picture
from pypdfium2 import raw

from penstock.pdf.annotations import opened_as_shown
from penstock.pdf.matrices import bounds_of, matrix_of, times
from penstock.pdf.opening import opened_document
from penstock.pdf.pages.model import Image
from penstock.pdf.pages.objects import Objects, handle_of, objects_of
from penstock.pdf.pages.pixels import UPRIGHT, Turn, decoded_data, drawn_alone, filters_of, is_cut, raw_data, turn_of
from penstock.pdf.pages.png import png_of
from penstock.pdf.pages.sheet import Sheet, sheet_of
from penstock.pdf.pages.streams import Streams

MOST_IMAGES = 500
_SPECK = 16  # pixels
_MOST_PIXELS = 16_000_000
_PHOTO = 1_000_000  # pixels from which on an opaque picture is better off as JPEG
_RGB = 3  # channels
_KEPT = 1 << 20  # bytes: larger pictures are not kept for a second page
_JPEG, _JPEG_START = b"DCTDecode", b"\xff\xd8"
_DIRECT = (
    raw.FPDF_COLORSPACE_DEVICEGRAY, raw.FPDF_COLORSPACE_DEVICERGB,
    raw.FPDF_COLORSPACE_CALGRAY, raw.FPDF_COLORSPACE_CALRGB, raw.FPDF_COLORSPACE_ICCBASED,
)  # fmt: skip


class NoSuchImage(Exception):
    """The page or the image is not there, or PDFium cannot decode it."""


class ImageBytes(msgspec.Struct):
    """A picture as a file: PNG, or JPEG where it is one already or is large and opaque."""

    data: bytes  # empty where the answer has had the same picture before
    media_type: str
    width: int
    height: int
    name: str = ""  # by the content


@dataclass(slots=True)
class Room:
    """What pictures may still take of a call, and which it has made already."""

    left: int  # bytes
    until: float  # of the monotonic clock
    streams: Streams
    made: dict[int, ImageBytes] = field(default_factory=dict)  # by where their stream lies
    told: set[str] = field(default_factory=set)  # names


@dataclass(frozen=True, slots=True)
class Shown:
    """An image as PDFium has it."""

    item: Any
    about: Any
    turn: Turn = UPRIGHT


Placed = list[tuple[Image, Shown]]


def image_bytes(file: BinaryIO, page_number: int, image_id: str) -> ImageBytes:
    """The picture itself, at its own resolution as far as that is bounded, with the holes that its mask cuts."""
    for image, make in _makers(file, page_number):
        if image.id == image_id:
            return make()
    raise NoSuchImage(f"page {page_number}, {image_id}")


def images_bytes(file: BinaryIO, page_number: int, wanted: list[str], most_bytes: int) -> dict[str, ImageBytes]:
    """Several pictures of one page, as many as fit; one that cannot be decoded is left out."""
    found: dict[str, ImageBytes] = {}
    room = most_bytes
    for image, make in _makers(file, page_number):
        if image.id not in wanted:
            continue
        with suppress(NoSuchImage):
            made = make()
            if len(made.data) <= room:
                found[image.id] = made
                room -= len(made.data)
    return found


def _makers(file: BinaryIO, page_number: int) -> Iterator[tuple[Image, Callable[[], ImageBytes]]]:
    """The images of a page, each with what makes its picture as long as the next is not asked for."""
    with opened_document(file) as document, opened_as_shown(document, page_number - 1) as page:
        if page is None:
            raise NoSuchImage(f"page {page_number}")
        with closing(Streams(file)) as streams:
            for image, shown in placed(page, objects_of(page), sheet_of(page)):
                source = Source(document, page, streams)
                yield image, partial(source.picture, shown)


def is_speck(image: Image) -> bool:
    """Lines and dots, of which no picture is kept."""
    return min(image.pixel_width, image.pixel_height) < _SPECK


def pictures_of(document: Any, page: Any, images: Placed, room: Room) -> dict[str, ImageBytes] | None:
    """All pictures of a page that is open, but specks; None where they take more than the call has left.

    The last that is done with a page: an image is drawn by itself, with another matrix.
    """
    found: dict[str, ImageBytes] = {}
    source = Source(document, page, room.streams, room.made)
    for image, shown in images[:MOST_IMAGES]:
        if is_speck(image):
            continue
        if time.monotonic() > room.until:
            return None
        with suppress(NoSuchImage):
            made = source.picture(shown)
            if made.name in room.told:
                made = msgspec.structs.replace(made, data=b"")
            found[image.id] = made
            room.left -= len(made.data)
        if room.left < 0:
            return None
    room.told |= {each.name for each in found.values()}
    return found


def placed(page: Any, objects: Objects, sheet: Sheet) -> Placed:
    """Images that show on the page with their objects, in the order they are drawn; one more than there may be."""
    found: Placed = []
    for address, form in objects.images:
        if len(found) > MOST_IMAGES:
            break
        item = handle_of(address)
        matrix = times(times(matrix_of(item), form), sheet.matrix)  # it is the unit square, placed by all of these
        box = sheet.share(*bounds_of(matrix, 0.0, 0.0, 1.0, 1.0))
        if box.width <= 0 or box.height <= 0:
            continue
        about, turn = _about(item, page), turn_of(matrix)
        size = (about.height, about.width) if turn.swaps else (about.width, about.height)
        is_mask = about.colorspace == raw.FPDF_COLORSPACE_UNKNOWN and about.bits_per_pixel == 1
        found.append((Image(f"i{len(found) + 1}", box, *size, is_mask=is_mask), Shown(item, about, turn)))
    return found


def _about(item: Any, page: Any) -> Any:
    about = raw.FPDF_IMAGEOBJ_METADATA()
    raw.FPDFImageObj_GetImageMetadata(item, page, about)
    return about


@dataclass(frozen=True, slots=True)
class Source:
    """Makes the pictures of a page."""

    document: Any
    page: Any
    streams: Streams
    made: dict[int, ImageBytes] = field(default_factory=dict)

    def picture(self, shown: Shown) -> ImageBytes:
        """One that was drawn with the same stream before is the same picture, unless the page adds or cuts."""
        if not self._is_by_itself(shown):
            return _named(self._decoded(shown))
        stored = raw_data(shown.item)
        places = self.streams.places(stored)
        known = self.made.get(places[0]) if len(places) == 1 else None
        if known is None:
            is_plain = bool(places) and all(map(self.streams.is_unmasked, places))
            known = _named((_own_jpeg(shown, stored) if is_plain else None) or self._decoded(shown))
            if len(places) == 1 and len(known.data) < _KEPT:
                self.made[places[0]] = known
        return known

    def _is_by_itself(self, shown: Shown) -> bool:
        item, about = shown.item, shown.about
        if (
            shown.turn != UPRIGHT
            or about.colorspace == raw.FPDF_COLORSPACE_UNKNOWN
            or raw.FPDFPageObj_HasTransparency(item)
        ):
            return False
        return not is_cut(item, about.width, about.height)

    def _decoded(self, shown: Shown) -> ImageBytes:
        about, item = shown.about, shown.item
        width, height = max(1, about.width), max(1, about.height)
        scale = min(1.0, math.sqrt(_MOST_PIXELS / (width * height)))
        size = max(1.0, width * scale), max(1.0, height * scale)
        pixels = drawn_alone(self.document, self.page, item, size)
        if pixels is None:
            raise NoSuchImage("PDFium cannot decode it")
        pixels = shown.turn.applied(pixels)
        is_opaque = pixels.shape[2] == _RGB
        if is_opaque and shown.turn == UPRIGHT and (own := _own_jpeg(shown, raw_data(item))) is not None:
            return own
        height, width, _ = pixels.shape
        if not (is_opaque and width * height > _PHOTO and about.bits_per_pixel != 1):
            return ImageBytes(png_of(pixels), "image/png", width, height)
        data = io.BytesIO()
        Picture.fromarray(pixels).save(data, "JPEG", quality=90)
        return ImageBytes(data.getvalue(), "image/jpeg", width, height)


def _own_jpeg(shown: Shown, stored: bytes) -> ImageBytes | None:
    """The file's own JPEG, where it says all of the picture."""
    about = shown.about
    if about.colorspace not in _DIRECT or not about.bits_per_pixel:
        return None
    names = filters_of(shown.item)
    if names[-1:] != [_JPEG]:
        return None
    data = stored if names == [_JPEG] else decoded_data(shown.item)
    return ImageBytes(data, "image/jpeg", about.width, about.height) if data.startswith(_JPEG_START) else None


def _named(made: ImageBytes) -> ImageBytes:
    kind = made.media_type.removeprefix("image/").replace("jpeg", "jpg")
    made.name = f"{hashlib.sha256(made.data).hexdigest()[:32]}.{kind}"
    return made
