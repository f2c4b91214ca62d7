"""A small grey picture of a page, asked three things: is there text in this part, does text stand on ink, is it seen?

Drawn only where the text layer leaves a doubt, and once per page.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from pypdfium2 import raw

from penstock.pdf.pages.model import Box, Span
from penstock.pdf.rendering import drawn

_LONGER_SIDE = 700  # pixels of the whole page: letters of a printed page are five or more high
_CONTRAST = 48
_FAINT = 10
_SMALLEST = 4.0  # pixels
_STROKE = 5.0  # pixels: strokes of letters are shorter, shapes in photographs longer
_SAMPLE = 300

Shades = npt.NDArray[np.int16]
Marks = npt.NDArray[np.bool_]


class Ink:
    """Where a page differs from its paper, the commonest shade of the part that is looked at."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def has_text(self, box: Box, without: Sequence[Span] = ()) -> bool:
        """Whether a part looks written on: many short strokes, in lines with paper between them."""
        part = _grey(self._page, box)
        if min(part.shape) < 8:
            return False
        marks = _marks(part)
        for span in without:
            _cut_of(marks, _within(span.box, box))[:] = False
        rows = marks.mean(1)
        strokes = int(np.count_nonzero(marks[:, 1:] & ~marks[:, :-1]))
        share = float(marks.mean())
        if not 0.004 < share < 0.4 or strokes < 100:
            return False
        return marks.sum() / strokes < _STROKE and float((rows < 0.01).mean()) > 0.08

    def shows(self, span: Span) -> bool:
        """Whether there is anything to be seen where a span stands; too small for this picture counts as seen."""
        part = _cut_of(self._whole, span.box)
        if span.box.height * self._whole.shape[0] < _SMALLEST or part.size == 0:
            return True
        return int(part.max()) - int(part.min()) > _FAINT

    @cached_property
    def _whole(self) -> Shades:
        return _grey(self._page, Box(0.0, 0.0, 1.0, 1.0))

    def share_of_standing(self, spans: Sequence[Span]) -> float:
        """The share of these spans that have something drawn under them, as text would be."""
        sample = spans[:: max(1, len(spans) // _SAMPLE)]
        marks = _marks(self._whole)
        stands = [0.03 < _mean(_cut_of(marks, span.box)) < 0.85 for span in sample]
        return sum(stands) / len(stands) if stands else 0.0


def _grey(page: Any, box: Box) -> Shades:
    """A part of the page; only what is in it is drawn."""
    width, height = raw.FPDF_GetPageWidthF(page), raw.FPDF_GetPageHeightF(page)
    scale = _LONGER_SIDE / max(width, height, 1.0)
    return np.asarray(drawn(page, scale, raw.FPDFBitmap_Gray, box)).astype(np.int16)


def _marks(grey: Shades) -> Marks:
    paper = int(np.bincount(grey.ravel(), minlength=256).argmax())
    return np.abs(grey - paper) > _CONTRAST


def _cut_of(array: npt.NDArray[Any], box: Box) -> npt.NDArray[Any]:
    height, width = array.shape
    rows = slice(int(max(0.0, box.y0) * height), int(np.ceil(box.y1 * height)))
    return array[rows, int(max(0.0, box.x0) * width) : int(np.ceil(box.x1 * width))]


def _within(box: Box, frame: Box) -> Box:
    """A box of the page in shares of a part of it."""
    width, height = max(frame.width, 1e-6), max(frame.height, 1e-6)
    x0, x1 = ((x - frame.x0) / width for x in (box.x0, box.x1))
    y0, y1 = ((y - frame.y0) / height for y in (box.y0, box.y1))
    return Box(min(1.0, max(0.0, x0)), min(1.0, max(0.0, y0)), min(1.0, max(0.0, x1)), min(1.0, max(0.0, y1)))


def _mean(part: Marks) -> float:
    return float(part.mean()) if part.size else 0.0
