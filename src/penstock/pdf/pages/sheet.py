"""A page as it is displayed: its crop box cut out, turned by its rotation, y downwards from the top left corner."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pypdfium2 import raw

from penstock.pdf.matrices import Matrix
from penstock.pdf.pages.bulk import Floats
from penstock.pdf.pages.model import Box

_DIGITS = 5  # of a share: a hundredth of a millimetre on A4


@dataclass(frozen=True, slots=True)
class Sheet:
    """Points of the page's own system become points of the display by `matrix`."""

    width: float
    height: float
    rotation: int
    matrix: Matrix

    def displayed(self, boxes: Floats) -> Floats:
        """Rectangles (x, y, x, y) of the page, as x0, y0, x1, y1 of the display."""
        a, b, c, d, e, f = self.matrix
        across = a * boxes[:, 0::2] + c * boxes[:, 1::2] + e
        down = b * boxes[:, 0::2] + d * boxes[:, 1::2] + f
        return np.column_stack([across.min(1), down.min(1), across.max(1), down.max(1)])

    def share(self, x0: float, y0: float, x1: float, y1: float) -> Box:
        """The part of a displayed rectangle that is on the page, as shares of it."""
        return Box(
            _clipped(x0 / self.width), _clipped(y0 / self.height), _clipped(x1 / self.width), _clipped(y1 / self.height)
        )


def sheet_of(page: Any) -> Sheet:
    rect = raw.FS_RECTF()
    left, bottom, right, top = 0.0, 0.0, 612.0, 792.0
    if raw.FPDF_GetPageBoundingBox(page, rect):
        left, right = sorted((rect.left, rect.right))
        bottom, top = sorted((rect.bottom, rect.top))
    turns = max(0, raw.FPDFPage_GetRotation(page)) % 4
    width, height = max(right - left, 1e-3), max(top - bottom, 1e-3)
    matrix: Matrix = (
        (1.0, 0.0, 0.0, -1.0, -left, top),
        (0.0, 1.0, 1.0, 0.0, -bottom, -left),
        (-1.0, 0.0, 0.0, 1.0, right, -bottom),
        (0.0, -1.0, -1.0, 0.0, top, right),
    )[turns]
    return Sheet(*((height, width) if turns % 2 else (width, height)), turns * 90, matrix)


def _clipped(share: float) -> float:
    return round(min(1.0, max(0.0, share)), _DIGITS) if share == share else 0.0  # noqa: PLR0124  not a number
