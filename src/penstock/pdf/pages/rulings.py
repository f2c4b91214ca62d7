"""Straight lines of a page, level or upright: strokes, and rectangles so thin that they are seen as lines.

Also whether filled shapes carry pictures: a tiling pattern shows what the page's list of images does not have.
Drawings and outlined letters are told by their curves and left alone: they are many, and no table is made of them.
"""

import ctypes
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from pypdfium2 import raw

from penstock.pdf.matrices import IDENTITY
from penstock.pdf.pages import bulk
from penstock.pdf.pages.letters import Mask
from penstock.pdf.pages.model import Ruling
from penstock.pdf.pages.objects import Objects, handle_of
from penstock.pdf.pages.sheet import Sheet

_THIN = 2.5  # points
_SLANT = 0.5
_SHORTEST = 4.0
_SHORTEST_IN_A_SHAPE = 20.0  # a filled shape smaller than this is a letter or a mark
_SEGMENTS = 20_000  # looked at per page
_SEGMENTS_OF_A_TABLE = 4_000  # a path of more is a drawing
_CURVES = 16  # a frame with round corners has four, a letter or a drawing more
_EARLY = 4  # segments that tell a drawing from a frame
_CURVE = raw.FPDF_SEGMENT_BEZIERTO
_PATTERNS = 16  # asked for per page
_PATTERN_SHARE = 0.01
_PATTERN_COLOUR = (0xBF, 0xBF, 0xBF)  # how PDFium names the colour of a coloured tiling pattern


_quick_ruling = partial(tuple.__new__, Ruling)


@dataclass(slots=True)
class Drawn:
    """What the paths of a page come to."""

    rulings: list[Ruling]
    is_cut: bool = False
    has_patterns: bool = False


def drawn_of(document: Any, objects: Objects, sheet: Sheet, most: int) -> Drawn:
    if not objects.paths:
        return Drawn([])
    paths = _Paths(objects.paths, np.array(objects.forms), sheet)
    across, down = paths.sides.T
    thin = np.minimum(across, down) <= _THIN
    area = across * down
    filled = (paths.modes[:, 0] != 0) & (area >= _PATTERN_SHARE * sheet.width * sheet.height) & ~thin
    shaped = ~thin & ((paths.modes[:, 1] != 0) | (np.maximum(across, down) >= _SHORTEST_IN_A_SHAPE))
    lines, is_cut = paths.lines(np.flatnonzero(shaped))
    rulings = _rulings(np.concatenate([paths.boxes[thin], lines]), sheet)
    has_patterns = _has_pattern(document, [paths.items[each] for each in np.flatnonzero(filled).tolist()])
    return Drawn(rulings[:most], is_cut or len(rulings) > most, has_patterns)


class _Paths:
    """The paths of a page that are drawn on it and are long enough for a line, with their boxes as displayed."""

    def __init__(self, items: list[int], forms: bulk.Floats, sheet: Sheet) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            boxes = sheet.displayed(_moved(bulk.bounds_of_objects(items), forms))
            sides = boxes[:, 2:] - boxes[:, :2]
            x0, y0, x1, y1 = boxes.T
            seen = (x1 >= 0) & (y1 >= 0) & (x0 <= sheet.width) & (y0 <= sheet.height)
            at = np.flatnonzero(seen & (np.maximum(sides[:, 0], sides[:, 1]) >= _SHORTEST))
        modes = bulk.draw_modes([items[each] for each in at.tolist()])
        drawn = (modes[:, 0] != 0) | (modes[:, 1] != 0)
        at, self.modes = at[drawn], modes[drawn]
        self.items = [items[each] for each in at.tolist()]
        self.boxes, self.sides, self._forms = boxes[at], sides[at], forms[at]
        self._sheet = sheet

    def lines(self, at: bulk.Counts) -> tuple[bulk.Floats, bool]:
        """Straight parts of stroked paths and thin parts of all, as displayed; and whether some were left out."""
        at, counts, is_cut = self._affordable(at)
        segments = bulk.segments_of([self.items[each] for each in at.tolist()], counts.tolist())
        if not segments:
            return np.zeros((0, 4)), is_cut
        kinds = bulk.segment_kinds(segments)
        curves = np.add.reduceat((kinds == _CURVE).astype(np.int64), np.cumsum(counts) - counts)
        plain = curves <= _CURVES
        kept = np.repeat(plain, counts)
        chosen = list(compress(segments, kept.tolist()))
        if not chosen:
            return np.zeros((0, 4)), is_cut
        points, closes = bulk.segment_ends(chosen)
        at, counts = at[plain], counts[plain]
        own = bulk.matrices_of([self.items[each] for each in at.tolist()])
        owners = np.repeat(np.arange(len(at)), counts)
        points = _displayed(points, own[owners], self._forms[at][owners], self._sheet)
        return _straight(points, kinds[kept], closes, (self.modes[at, 1] != 0)[owners]), is_cut

    def _affordable(self, at: bulk.Counts) -> tuple[bulk.Counts, bulk.Counts, bool]:
        """Paths that may be frames and tables, as many as the page has a right to."""
        counts = bulk.segment_counts([self.items[each] for each in at.tolist()])
        fits = (counts > 1) & (counts <= _SEGMENTS_OF_A_TABLE)
        at, counts = at[fits], counts[fits]
        begun = [self.items[each] for each in at.tolist()]
        early = bulk.segment_kinds(bulk.segments_of(begun, np.minimum(counts, _EARLY).tolist()))
        starts = np.cumsum(np.minimum(counts, _EARLY)) - np.minimum(counts, _EARLY)
        curved = np.add.reduceat((early == _CURVE).astype(np.int64), starts) > 0 if len(at) else np.zeros(0, bool)
        fits = ~(curved & (counts > _CURVES))
        at, counts = at[fits], counts[fits]
        affordable = np.cumsum(counts) <= _SEGMENTS
        return at[affordable], counts[affordable], not bool(affordable.all())


def _has_pattern(document: Any, items: list[int]) -> bool:
    colour = [ctypes.c_uint() for _ in range(4)]
    left = _PATTERNS
    for item in map(handle_of, items):
        raw.FPDFPageObj_GetFillColor(item, *colour)
        if tuple(each.value for each in colour[:3]) == _PATTERN_COLOUR and left:
            left -= 1
            bitmap = raw.FPDFPageObj_GetRenderedFillPattern(document, item)
            if bitmap:
                raw.FPDFBitmap_Destroy(bitmap)
                return True
    return False


def _straight(points: bulk.Floats, kinds: bulk.Counts, closes: Mask, stroked: Mask) -> bulk.Floats:
    """`points` are those of all paths in a row; each path and each part of one begins by a move."""
    moves = kinds == raw.FPDF_SEGMENT_MOVETO
    moves[0] = True
    starts = np.flatnonzero(moves)
    to = np.flatnonzero((kinds == raw.FPDF_SEGMENT_LINETO) & stroked & ~moves)
    back = np.flatnonzero(closes & stroked)
    begun = np.maximum.accumulate(np.where(moves, np.arange(len(kinds)), 0))
    edges = np.concatenate([np.hstack([points[to - 1], points[to]]), np.hstack([points[back], points[begun[back]]])])
    edges = np.hstack([np.minimum(edges[:, :2], edges[:, 2:]), np.maximum(edges[:, :2], edges[:, 2:])])
    edges = edges[np.minimum(edges[:, 2] - edges[:, 0], edges[:, 3] - edges[:, 1]) <= _SLANT]
    parts = np.hstack([np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)])
    thin = np.minimum(parts[:, 2] - parts[:, 0], parts[:, 3] - parts[:, 1]) <= _THIN
    return np.concatenate([edges, parts[thin & ~stroked[starts]]])


def _rulings(lines: bulk.Floats, sheet: Sheet) -> list[Ruling]:
    """Each line once, cut to the page, thickness gone."""
    lines = lines[np.isfinite(lines).all(1)]
    across, down = lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1]
    lines = lines[(np.maximum(across, down) >= _SHORTEST) & (np.minimum(across, down) <= _THIN)]
    level = (lines[:, 2] - lines[:, 0]) >= (lines[:, 3] - lines[:, 1])
    middle = (lines[:, :2] + lines[:, 2:]) / 2
    lines[level, 1] = lines[level, 3] = middle[level, 1]
    lines[~level, 0] = lines[~level, 2] = middle[~level, 0]
    shares = (lines / (sheet.width, sheet.height, sheet.width, sheet.height)).clip(0, 1).round(5)
    shares = shares[(shares[:, 0] != shares[:, 2]) | (shares[:, 1] != shares[:, 3])]
    return list(dict.fromkeys(map(_quick_ruling, shares.tolist())))


def _displayed(points: bulk.Floats, own: bulk.Floats, forms: bulk.Floats, sheet: Sheet) -> bulk.Floats:
    """Through the path's own matrix, then those of its forms, then the display's."""
    x, y = points.T
    for a, b, c, d, e, f in (own.T, forms.T, sheet.matrix):
        x, y = a * x + c * y + e, b * x + d * y + f
    return np.column_stack([x, y])


def _moved(boxes: bulk.Floats, forms: bulk.Floats) -> bulk.Floats:
    """Boxes of objects in the page's system; most are in no form and stay what they are."""
    inner = np.flatnonzero((forms != IDENTITY).any(1))
    if len(inner):
        a, b, c, d, e, f = forms[inner].T
        corners = [(boxes[inner, i], boxes[inner, j]) for i in (0, 2) for j in (1, 3)]
        across = np.column_stack([a * x + c * y + e for x, y in corners])
        up = np.column_stack([b * x + d * y + f for x, y in corners])
        boxes[inner] = np.column_stack([across.min(1), up.min(1), across.max(1), up.max(1)])
    return boxes
