"""What the reader calls in the recognisers' processes: whole pages, from a draft of the text pass or from a picture."""

import math
from typing import Any, BinaryIO

import msgspec

from penstock.pdf.ocr.found import Picture
from penstock.pdf.ocr.joining import is_whole, joined
from penstock.pdf.ocr.pictures import examine, is_moving
from penstock.pdf.ocr.recognising import recognise
from penstock.pdf.pages.model import Box, Page
from penstock.pdf.pages.reading import PageDraft
from penstock.pdf.steps import FIRST_FRAME_ONLY

_drafts = msgspec.msgpack.Decoder(PageDraft)
_WHOLE = Box(0.0, 0.0, 1.0, 1.0)
_SMALL_SIDE = 736  # pixels: letters on a page that is drawn smaller may be too small to be read
_FULL_SIDE = 1240  # as A4 at 150 dpi


def complete_page(file: BinaryIO, draft: bytes, options: dict[str, Any], warn_below: float) -> Page:
    """The page of a PDF that the text pass left open."""
    begun = _drafts.decode(draft)
    regions = [] if is_whole(begun.needs_ocr) else begun.needs_ocr
    drawn = fine_enough(begun.page, options["dpi"])
    found = recognise(file, begun.page.number, {**options, "regions": regions, "drawn_dpi": drawn})
    return joined(begun, found, warn_below)


def fine_enough(page: Page, usual: float) -> float:
    """Dots per inch at which to draw it. What calls itself tiny is drawn as finely as its pictures are, up to a sheet.

    A whole sheet may be a few points wide: its unit is larger than a point (`/UserUnit`), which PDFium does not tell,
    or its maker thought in centimetres.
    """
    shorter = min(page.width, page.height)
    if not 0 < shorter * usual < _SMALL_SIDE * 72:
        return usual
    most = _FULL_SIDE / shorter
    shown = [(each, each.box.width * page.width * each.box.height * page.height) for each in page.images]
    finest = max((each.pixel_width * each.pixel_height / area for each, area in shown if area > 0), default=most**2)
    return max(usual, min(math.sqrt(finest), most) * 72)


def picture_page(file: BinaryIO, number: int, options: dict[str, Any], warn_below: float) -> Page:
    """A picture, or a page of a TIFF."""
    found = recognise(file, number, {**options, "is_picture": True})
    sideways = found.rotation % 180 != 0
    size = (found.height, found.width) if sideways else (found.width, found.height)  # as the picture is stored
    page = Page(number, round(size[0], 2), round(size[1], 2))
    if is_moving(file, options["max_picture_pixels"]):
        page.warnings.append(FIRST_FRAME_ONLY)
    return joined(PageDraft(page, needs_ocr=[_WHOLE]), found, warn_below)


def examine_picture(file: BinaryIO, max_pixels: int, max_frames: int) -> Picture:
    return examine(file, max_pixels, max_frames)
