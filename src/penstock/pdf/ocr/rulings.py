"""Lines drawn on a page, found in its bitmap: long straight runs of ink, thin, and not part of the text.

Without them a table on a scan has to be guessed from how its words stand.
"""

from typing import Any

import cv2
import numpy as np

from penstock.pdf.ocr.bitmaps import Bitmap, Quads

_SHORTEST = 0.3  # inches
_THICKEST = 0.05


def find_rulings(page: Bitmap, lean: float, dpi: float, text_height: float) -> Quads:
    """Each as x0, y0, x1, y1 in pixels of the page after its lean is taken out."""
    grey = cv2.cvtColor(page, cv2.COLOR_BGR2GRAY)
    height, width = grey.shape
    if lean:
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), lean, 1)
        grey = cv2.warpAffine(grey, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
    ink: Any = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 31, 12)
    shortest = round(max(_SHORTEST * dpi, 2.2 * text_height, 8))
    thickest = max(3.0, _THICKEST * dpi)
    across = _runs(ink, shortest, thickest)
    down = _runs(np.ascontiguousarray(ink.T), shortest, thickest)[:, [1, 0, 3, 2]]
    return np.concatenate([across, down]).astype(np.float32)


def _runs(ink: Bitmap, shortest: int, thickest: float) -> Quads:
    """Horizontal runs. Gaps of a pixel are closed first; wider ones are those between letters."""
    joined = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, np.ones((1, 2), np.uint8))
    opened = cv2.morphologyEx(joined, cv2.MORPH_OPEN, np.ones((1, shortest), np.uint8))
    _, _, boxes, _ = cv2.connectedComponentsWithStats(opened, connectivity=8)
    x, y, wide, high, area = boxes[1:].T  # the first is the paper
    # The mean thickness counts, not the box's: a long line that still leans a little has a high box.
    kept = (area <= thickest * wide) & (high <= thickest + wide / 50)
    middle = y + high / 2
    return np.asarray(np.stack([x, middle, x + wide, middle], axis=1)[kept], np.float32)
