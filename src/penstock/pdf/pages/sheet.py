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
        x, y, z, w = boxes.T
        across, other = a * x + c * y + e, a * z + c * w + e
        down, lower = b * x + d * y + f, b * z + d * w + f
        made = np.empty((len(boxes), 4))
        np.minimum(across, other, out=made[:, 0])
        np.minimum(down, lower, out=made[:, 1])
        np.maximum(across, other, out=made[:, 2])
        np.maximum(down, lower, out=made[:, 3])
        return made

    def share(self, x0: float, y0: float, x1: float, y1: float) -> Box:
        """The part of a displayed rectangle that is on the page, as shares of it."""
        x0, y0, x1, y1 = x0 / self.width, y0 / self.height, x1 / self.width, y1 / self.height
        if not (x0 >= 0 and y0 >= 0 and x1 <= 1 and y1 <= 1):
            x0, y0, x1, y1 = _clipped(x0), _clipped(y0), _clipped(x1), _clipped(y1)
        return Box(round(x0, _DIGITS), round(y0, _DIGITS), round(x1, _DIGITS), round(y1, _DIGITS))


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
    return min(1.0, max(0.0, share)) if share == share else 0.0  # noqa: PLR0124  not a number
