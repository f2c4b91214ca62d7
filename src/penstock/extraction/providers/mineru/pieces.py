"""What a service found, in reading order, before it becomes pages: the same for every family and unit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.extraction.providers.mineru.refusals import not_understood
from penstock.pdf.pages.model import Box

MOST_PAGES = 20_000


class PieceKind(StrEnum):
    """What a piece is; the words differ between families."""

    TEXT = "text"
    HEADING = "heading"
    LIST = "list"
    FURNITURE = "furniture"
    TABLE = "table"
    IMAGE = "image"


@dataclass(slots=True)
class Piece:
    """`page` counts from 0, as all families do; `box` is None where the service gave none that makes sense."""

    kind: PieceKind
    page: int
    box: Box | None
    text: str = ""
    level: int = 0
    image: str = ""  # its path in the result
    markup: str = ""  # of a table
    items: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Line:
    """One line as the recogniser saw it."""

    text: str
    box: Box
    score: float | None


@dataclass(slots=True)
class Sheet:
    """What is known of a page as such. Sizes are points; 0 where the service does not tell."""

    width: float = 0.0
    height: float = 0.0
    lines: list[Line] = field(default_factory=list)


@dataclass(slots=True)
class Found:
    """All of a result but its pictures."""

    pieces: list[Piece]
    sheets: dict[int, Sheet]


def share(corners: Sequence[float] | None, wide: float, high: float) -> Box | None:
    """A box in the service's unit as shares of the page; `wide` and `high` are the page in that unit."""
    if corners is None or len(corners) != 4 or not (wide > 0 and high > 0) or not all(map(math.isfinite, corners)):
        return None
    x0, x1 = sorted((_clamped(corners[0] / wide), _clamped(corners[2] / wide)))
    y0, y1 = sorted((_clamped(corners[1] / high), _clamped(corners[3] / high)))
    return Box(x0, y0, x1, y1) if x1 > x0 and y1 > y0 else None


def checked_page(number: int) -> int:
    if not 0 <= number < MOST_PAGES:
        raise not_understood("PAGE_NUMBER", page_idx=number)
    return number


def _clamped(value: float) -> float:
    return round(min(max(value, 0.0), 1.0), 6)
