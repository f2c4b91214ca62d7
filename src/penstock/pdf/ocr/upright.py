"""Which way up a page is, and how far it leans. Found once for the page, and checked by reading where in doubt.

The orientation model sees a small picture and is right nearly always. Its verdict is checked when it wants to turn
the page or is unsure, and when the page turned out hard to read: some lines are read in both directions, and the
direction that reads better wins. A lean of a few degrees is measured on the long lines.
"""

import math

import cv2
import numpy as np

from penstock.pdf.ocr.bitmaps import Bitmap, Quads
from penstock.pdf.ocr.engine import Engine

_SURE = 0.8
_LEAST_LEAN = 0.05
_MOST_LEAN = 15.0  # degrees; more is not a skewed page but slanted print
_SAMPLE = 6  # lines read in both directions
_PROFILE_WIDTH = 900
_LONG = 4  # times its height is a line that shows a direction


def turned(bitmap: Bitmap, quarters: int) -> Bitmap:
    """By so many quarters, counter-clockwise."""
    return np.ascontiguousarray(np.rot90(bitmap, quarters)) if quarters % 4 else bitmap


def upright_lines(bitmap: Bitmap, engine: Engine) -> tuple[int, Bitmap, Quads]:
    """The quarter turns that were needed, the bitmap after them, and its lines."""
    quarters, sure = engine.quarter_turns(bitmap)
    page = turned(bitmap, quarters)
    quads = engine.lines(page)
    if quarters == 0 and sure >= _SURE and not _mostly_vertical(quads):
        return 0, page, quads
    more = further_turns(page, quads, engine)
    if more:
        page = turned(page, more)
        quads = engine.lines(page)
    return (quarters + more) % 4, page, quads


def further_turns(page: Bitmap, quads: Quads, engine: Engine) -> int:
    """How many quarters the page is still off, judged by how its longest lines read."""
    wide, high = sides(quads)
    vertical = _mostly_vertical(quads)
    longer = high if vertical else wide
    chosen = [index for index in np.argsort(-longer)[:_SAMPLE] if longer[index] > 0]
    if not chosen:
        return 0
    crops = [crop(page, quads[index]) for index in chosen]
    scores = {}
    for quarters in (1, 3) if vertical else (0, 2):
        read = engine.texts([turned(each, quarters) for each in crops])
        scores[quarters] = sum(score * len(text) for text, score in read) / max(1, sum(len(text) for text, _ in read))
    best = max(scores, key=scores.__getitem__)
    if vertical and scores[best] < _SURE:  # columns of upright letters, which read badly either way: leave them
        return 0
    return best


def lean(quads: Quads) -> float:
    """Degrees by which the long lines go down to the right; 0 when they do not agree."""
    wide, high = sides(quads)
    long = wide > _LONG * np.maximum(high, 1)
    if not long.any():
        return 0.0
    edges = (quads[long, 1] + quads[long, 2] - quads[long, 0] - quads[long, 3]) / 2
    angles = np.degrees(np.arctan2(edges[:, 1], edges[:, 0]))
    order = np.argsort(angles)
    passed = np.cumsum(wide[long][order])
    angle = float(angles[order][np.searchsorted(passed, passed[-1] / 2)])
    spread = float(np.average(np.abs(angles - angle), weights=wide[long]))
    if abs(angle) < _LEAST_LEAN or abs(angle) > _MOST_LEAN or spread > max(1.0, abs(angle) / 2):
        return 0.0
    return round(angle, 2)


def refined(page: Bitmap, degrees: float) -> float:
    """The lean to a twentieth of a degree: rows of ink are the sharpest when the page stands straight."""
    grey = cv2.cvtColor(page, cv2.COLOR_BGR2GRAY)
    share = min(1.0, _PROFILE_WIDTH / grey.shape[1])
    small = cv2.resize(grey, None, fx=share, fy=share, interpolation=cv2.INTER_AREA)
    ink = cv2.adaptiveThreshold(small, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 31, 12)
    height, width = ink.shape

    def sharpness(angle: float) -> float:
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1)
        rows = cv2.warpAffine(ink, matrix, (width, height)).sum(axis=1, dtype=np.float64)
        return float(np.square(np.diff(rows)).sum())

    angles: list[float] = [degrees + step * 0.05 for step in range(-8, 9)]
    best = max(angles, key=sharpness)
    return round(best, 2) if abs(best) >= _LEAST_LEAN else 0.0


def straightened(points: Quads, degrees: float, size: tuple[int, int]) -> Quads:
    """Points of a page that leans, where they would be if it did not."""
    if not degrees:
        return points
    middle = np.array([size[0] / 2, size[1] / 2], np.float32)
    angle = math.radians(-degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], np.float32)
    return ((points - middle) @ turn.T + middle).astype(np.float32)


def sides(quads: Quads) -> tuple[Quads, Quads]:
    """Length along the text's top edge, and down its left."""
    wide = np.linalg.norm(quads[:, 1] - quads[:, 0], axis=1)
    high = np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1)
    return wide.astype(np.float32), high.astype(np.float32)


def crop(page: Bitmap, quad: Quads) -> Bitmap:
    """A line cut out of the page and set straight."""
    width = max(1, int(max(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[2] - quad[3]))))
    height = max(1, int(max(np.linalg.norm(quad[0] - quad[3]), np.linalg.norm(quad[1] - quad[2]))))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(quad.astype(np.float32), target)
    return np.asarray(
        cv2.warpPerspective(page, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE),
        np.uint8,
    )


def _mostly_vertical(quads: Quads) -> bool:
    wide, high = sides(quads)
    return bool(high[high > 2 * wide].sum() > wide[wide > 2 * high].sum())
