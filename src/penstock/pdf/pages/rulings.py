"""Straight lines of a page, level or upright: strokes, and rectangles so thin that they are seen as lines.

Also which filled shapes carry pictures: a tiling pattern shows an image that the page's list of images does not have.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pypdfium2 import raw

from penstock.pdf.matrices import Matrix, matrix_of, moved, times
from penstock.pdf.pages import bulk
from penstock.pdf.pages.model import Ruling
from penstock.pdf.pages.objects import Objects, handle_of
from penstock.pdf.pages.sheet import Sheet

_THIN = 2.5  # points
_SHORTEST = 4.0
_SEGMENTS = 20_000  # looked at per page
_SEGMENTS_OF_A_TABLE = 4_000  # a path of more is a drawing
_PATTERNS = 16  # asked for per page
_PATTERN_SHARE = 0.01
_PATTERN_COLOUR = (0xBF, 0xBF, 0xBF)  # how PDFium names the colour of a coloured tiling pattern


@dataclass(slots=True)
class Drawn:
    """What the paths of a page come to."""

    rulings: list[Ruling]
    is_cut: bool
    has_patterns: bool


def drawn_of(document: Any, objects: Objects, sheet: Sheet, most: int) -> Drawn:
    found: dict[Ruling, None] = {}
    budget = _Budget(_SEGMENTS, _PATTERNS)
    has_patterns = False
    for items, matrix in objects.paths:
        boxes = sheet.displayed(_moved(bulk.bounds_of_objects(items), matrix))
        sides = boxes[:, 2:] - boxes[:, :2]
        seen = (boxes[:, 2:] >= 0).all(1) & (boxes[:, :2] <= (sheet.width, sheet.height)).all(1)
        long = seen & (sides.max(1, initial=0) >= _SHORTEST)
        for at in np.flatnonzero(long).tolist():
            if len(found) >= most:
                return Drawn(list(found), is_cut=True, has_patterns=has_patterns)
            item = handle_of(items[at])
            fills, strokes = _modes(item)
            if not fills and not strokes:
                continue
            if min(sides[at]) <= _THIN:
                _note(found, boxes[at].tolist(), sheet)
                continue
            share = sides[at, 0] * sides[at, 1] / (sheet.width * sheet.height)
            if fills and not has_patterns and share >= _PATTERN_SHARE:
                has_patterns = budget.pattern(document, item)
            for line in budget.lines(item, matrix, sheet, strokes=strokes):
                _note(found, line, sheet)
    return Drawn(list(found), is_cut=budget.segments <= 0, has_patterns=has_patterns)


@dataclass(slots=True)
class _Budget:
    """What may still be looked at on this page."""

    segments: int
    patterns: int

    def pattern(self, document: Any, item: Any) -> bool:
        colour = [ctypes.c_uint() for _ in range(4)]
        if not self.patterns or not raw.FPDFPageObj_GetFillColor(item, *colour):
            return False
        if tuple(each.value for each in colour[:3]) != _PATTERN_COLOUR:
            return False
        self.patterns -= 1
        bitmap = raw.FPDFPageObj_GetRenderedFillPattern(document, item)
        if bitmap:
            raw.FPDFBitmap_Destroy(bitmap)
        return bool(bitmap)

    def lines(self, item: Any, matrix: Matrix, sheet: Sheet, *, strokes: bool) -> Iterator[list[float]]:
        """Of a stroked path its straight parts, of a filled one its thin rectangles; x0, y0, x1, y1 as displayed."""
        count = raw.FPDFPath_CountSegments(item)
        if not 0 < count <= min(_SEGMENTS_OF_A_TABLE, self.segments):
            return
        self.segments -= count
        whole = times(times(matrix_of(item), matrix), sheet.matrix)
        for part in _parts(item, count, whole):
            xs, ys = [x for x, _ in part], [y for _, y in part]
            if min(max(xs) - min(xs), max(ys) - min(ys)) <= _THIN:
                yield [min(xs), min(ys), max(xs), max(ys)]
            elif strokes:
                for (ax, ay), (bx, by) in zip(part, part[1:], strict=False):
                    yield [min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)]


def _parts(item: Any, count: int, matrix: Matrix) -> Iterator[list[tuple[float, float]]]:
    """Polygons and lines of a path, closed ones with their first point again. Curves end a part."""
    part: list[tuple[float, float]] = []
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(count):
        segment = raw.FPDFPath_GetPathSegment(item, index)
        kind = raw.FPDFPathSegment_GetType(segment)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = moved(matrix, x.value, y.value)
        if kind == raw.FPDF_SEGMENT_LINETO:
            part.append(point)
        else:
            if len(part) > 1:
                yield part
            part = [point]
        if raw.FPDFPathSegment_GetClose(segment) and len(part) > 1:
            yield [*part, part[0]]
            part = [part[0]]
    if len(part) > 1:
        yield part


def _note(found: dict[Ruling, None], line: list[float], sheet: Sheet) -> None:
    x0, y0, x1, y1 = line
    width, height = x1 - x0, y1 - y0
    if max(width, height) < _SHORTEST or min(width, height) > _THIN:
        return
    if width >= height:
        y0 = y1 = (y0 + y1) / 2
    else:
        x0 = x1 = (x0 + x1) / 2
    box = sheet.share(x0, y0, x1, y1)
    if box.width > 0 or box.height > 0:
        found[Ruling(box.x0, box.y0, box.x1, box.y1)] = None


def _moved(boxes: bulk.Floats, matrix: Matrix) -> bulk.Floats:
    a, b, c, d, e, f = matrix
    corners = [(boxes[:, i], boxes[:, j]) for i in (0, 2) for j in (1, 3)]
    across = np.column_stack([a * x + c * y + e for x, y in corners])
    up = np.column_stack([b * x + d * y + f for x, y in corners])
    return np.column_stack([across.min(1), up.min(1), across.max(1), up.max(1)])


def _modes(item: Any) -> tuple[bool, bool]:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    if not raw.FPDFPath_GetDrawMode(item, fill, stroke):
        return False, False
    return fill.value != raw.FPDF_FILLMODE_NONE, bool(stroke.value)
