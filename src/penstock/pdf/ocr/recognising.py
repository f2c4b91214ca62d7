"""Reads the picture of a page: which way up, where lines are, what they say, which rules are drawn. In the sandbox.

The page is looked at once as a whole, or only where asked: `regions` are for pages that have text of their own
elsewhere, and those are taken to stand upright already.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any, BinaryIO

import msgspec
import numpy as np

from penstock.pdf.ocr.bitmaps import Bitmap, Quads
from penstock.pdf.ocr.engine import engine
from penstock.pdf.ocr.found import Recognised
from penstock.pdf.ocr.freeing import give_back
from penstock.pdf.ocr.pictures import decode
from penstock.pdf.ocr.rulings import find_rulings
from penstock.pdf.ocr.upright import crop, further_turns, lean, refined, sides, straightened, turned, upright_lines
from penstock.pdf.pages.model import Box, Origin, Ruling, Span
from penstock.pdf.rendering import drawn_page

_MARGIN = 12  # pixels of paper around a region: letters at the very edge are not seen
_MOST_REGIONS = 30  # more are looked at as one, as each has a price of its own
_LEAST_SIDE = 64
_HARD_TO_READ = 0.75  # mean confidence below which the page may be the wrong way up
_LETTER_SHARE = 0.72  # of a found line's height that its letters fill


class Looking(msgspec.Struct):
    """How a page is to be looked at."""

    is_picture: bool = False
    dpi: float = 150
    drawn_dpi: float = 0.0  # where the page needs another
    max_pixels: int = 6_000_000
    max_picture_pixels: int = 100_000_000
    min_confidence: float = 0.5
    regions: list[Box] = []


class _Line(msgspec.Struct):
    quad: Any
    text: str
    confidence: float


def recognise(file: BinaryIO, number: int, options: Mapping[str, Any]) -> Recognised:
    """Page `number`, from 1, of a PDF, or of a picture."""
    looking = msgspec.convert(dict(options), Looking)
    if looking.is_picture:
        bitmap, dpi = decode(file, number, looking.dpi, (looking.max_picture_pixels, looking.max_pixels))
    else:
        drawn, dpi = drawn_page(file, number, looking.drawn_dpi or looking.dpi, looking.max_pixels)
        bitmap = np.asarray(drawn)[:, :, ::-1]
    try:
        return _in_regions(bitmap, dpi, looking) if looking.regions else _whole(bitmap, dpi, looking)
    finally:
        give_back()


def _whole(bitmap: Bitmap, dpi: float, looking: Looking) -> Recognised:
    models, around = engine(), max(0, _LEAST_SIDE - min(bitmap.shape[:2]))
    quarters, page, quads = upright_lines(_framed(bitmap, around), models)
    lines = _read(page, quads)
    if lines and _confidence(lines) < _HARD_TO_READ and (more := further_turns(page, quads, models)):
        page, quarters = turned(page, more), (quarters + more) % 4
        quads = models.lines(page)
        lines = _read(page, quads)
    angle = refined(page, angle) if (angle := lean(quads)) else 0.0
    height, width = page.shape[:2]
    found = Recognised(
        width=(width - 2 * around) * 72 / dpi, height=(height - 2 * around) * 72 / dpi,
        rotation=quarters * 90, skew=angle, confidence=_confidence(lines) if lines else None,
    )  # fmt: skip
    frame = _Frame(around, around, width - 2 * around, height - 2 * around)
    for each in lines:
        each.quad = straightened(each.quad, angle, (width, height))
    found.spans = _spans(lines, frame, dpi, looking.min_confidence)
    rulings = _without_text(find_rulings(page, angle, _seen_at(dpi, looking), _text_height(lines)), lines)
    found.rulings = [Ruling(*each) for each in frame.shares(rulings)]
    return found


def _in_regions(bitmap: Bitmap, dpi: float, looking: Looking) -> Recognised:
    height, width = bitmap.shape[:2]
    found = Recognised(width=width * 72 / dpi, height=height * 72 / dpi)
    frame = _Frame(0, 0, width, height)
    lines: list[_Line] = []
    regions = looking.regions
    if len(regions) > _MOST_REGIONS:
        regions = [reduce(Box.union, regions)]
    for region in regions:
        x0, y0 = max(0, int(region.x0 * width)), max(0, int(region.y0 * height))
        x1, y1 = min(width, round(region.x1 * width)), min(height, round(region.y1 * height))
        if x1 - x0 < 4 or y1 - y0 < 4:
            continue
        part = _framed(bitmap[y0:y1, x0:x1], max(_MARGIN, (_LEAST_SIDE - min(x1 - x0, y1 - y0)) // 2))
        around = (part.shape[0] - (y1 - y0)) // 2
        there = _read(part, engine().lines(part))
        offset = np.array([x0 - around, y0 - around], np.float32)
        rulings = find_rulings(part, 0, _seen_at(dpi, looking), _text_height(there))
        for each in there:
            each.quad = each.quad + offset
        lines += there
        rulings = _without_text(rulings + np.tile(offset, 2), there)
        found.rulings += [Ruling(*each) for each in frame.shares(rulings)]
    found.spans = _spans(lines, frame, dpi, looking.min_confidence)
    found.confidence = _confidence(lines) if lines else None
    return found


def _seen_at(dpi: float, looking: Looking) -> float:
    """For what is known of lines in inches. A sheet whose inches are not inches is drawn much finer than it seems."""
    return min(dpi, 2 * looking.dpi)


def _read(page: Bitmap, quads: Quads) -> list[_Line]:
    _, high = sides(quads)
    usual = float(np.median(high)) if len(high) else 0
    crops = []
    for quad in quads:
        piece = crop(page, quad)
        # A column of letters is laid on its side to be read; a single narrow letter, such as a 1, is not a column.
        column = piece.shape[0] >= 1.5 * piece.shape[1] and piece.shape[0] > 1.8 * usual
        crops.append(turned(piece, 1) if column else piece)
    texts = engine().texts(crops)
    return [_Line(quad, text.strip(), score) for quad, (text, score) in zip(quads, texts, strict=True) if text.strip()]


class _Frame(msgspec.Struct):
    """Where the page lies in the bitmap, in pixels."""

    left: float
    top: float
    width: float
    height: float

    def shares(self, corners: Quads) -> list[list[float]]:
        """Of rectangles or lines as x0, y0, x1, y1."""
        scale = np.array([self.width, self.height] * 2, np.float32)
        shares = np.clip((corners - np.array([self.left, self.top] * 2, np.float32)) / scale, 0, 1)
        return [[round(float(each), 5) for each in row] for row in shares]


def _spans(lines: list[_Line], frame: _Frame, dpi: float, least: float) -> list[Span]:
    kept = [each for each in lines if each.confidence >= least]
    if not kept:
        return []
    boxes = frame.shares(np.stack([_extent(each.quad) for each in kept]))
    return [
        Span(
            f"s{index}", line.text, Box(*box), Origin.OCR, round(line.confidence, 3),
            size=round(_shorter(line.quad) * _LETTER_SHARE * 72 / dpi, 1),
        )
        for index, (line, box) in enumerate(zip(kept, boxes, strict=True), 1)
    ]  # fmt: skip


def _without_text(rulings: Quads, lines: list[_Line]) -> Quads:
    """A dash or a stroke of a large letter is not a ruling: what lies inside a line of text, across its middle."""
    kept = np.ones(len(rulings), bool)
    for line in lines:
        x0, y0, x1, y1 = _extent(line.quad)
        edge = (y1 - y0) * 0.2
        kept &= ~(
            (rulings[:, 0] >= x0 - 2) & (rulings[:, 2] <= x1 + 2)
            & (rulings[:, 1] > y0 + edge) & (rulings[:, 3] < y1 - edge)
        )  # fmt: skip
    return rulings[kept]


def _framed(bitmap: Bitmap, around: int) -> Bitmap:
    """With paper around it, of the commonest colour at its edge."""
    if not around:
        return np.ascontiguousarray(bitmap)
    edge = np.concatenate([bitmap[0], bitmap[-1], bitmap[:, 0], bitmap[:, -1]])
    height, width = bitmap.shape[:2]
    framed = np.empty((height + 2 * around, width + 2 * around, 3), np.uint8)
    framed[:] = np.median(edge, axis=0).astype(np.uint8)
    framed[around : around + height, around : around + width] = bitmap
    return framed


def _extent(quad: Quads) -> Quads:
    return np.concatenate([quad.min(axis=0), quad.max(axis=0)])


def _shorter(quad: Quads) -> float:
    return float(min(np.linalg.norm(quad[1] - quad[0]), np.linalg.norm(quad[3] - quad[0])))


def _text_height(lines: list[_Line]) -> float:
    return float(np.median([_shorter(each.quad) for each in lines])) if lines else 0.0


def _confidence(lines: list[_Line]) -> float:
    letters = sum(len(each.text) for each in lines)
    return round(sum(each.confidence * len(each.text) for each in lines) / letters, 3)
