"""Spans become lines. Positions here are points, so that widths and heights compare.

A page that was scanned at a slight angle is straightened first: the slope is what neighbours in a line agree on.
Invariant: each item stands in exactly one line.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import median

from penstock.pdf.pages.joining import is_right_to_left, join_words, tidy
from penstock.pdf.pages.model import Box, Image, Origin, Page, Span, Table

_SIDES = ("x0", "y0", "x1", "y1")


@dataclass(slots=True, eq=False)
class Item:
    """Something that stands on the page and is read as a whole."""

    x0: float
    y0: float
    x1: float
    y1: float
    thing: Span | Table | Image
    order: int  # in the page's own lists
    em: float = 0.0  # height of the letters; 0 for what is no text
    is_vertical: bool = False

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


class Line:
    """Items side by side, in the order they are read. What is asked of it is worked out once."""

    __slots__ = (
        "em",
        "is_bold",
        "is_recognised",
        "is_vertical",
        "items",
        "middle",
        "spans",
        "text",
        "widest_gap",
        *_SIDES,
    )

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        first = items[0]
        self.x0, self.y0, self.x1, self.y1 = first.x0, first.y0, first.x1, first.y1
        if len(items) == 1 and isinstance(span := first.thing, Span):
            self.spans = [span]
            self.is_vertical, self.is_recognised = first.is_vertical, span.origin is not Origin.TEXT
            self.em, self.is_bold, self.widest_gap = first.em, span.is_bold, 0.0
            self.text, self.middle = tidy(span.text), first.middle
            return
        self.spans = [item.thing for item in items if isinstance(item.thing, Span)]
        self.is_vertical = any(item.is_vertical for item in items)
        self.is_recognised = any(span.origin is not Origin.TEXT for span in self.spans)
        for item in items:
            self.x0, self.y0 = min(self.x0, item.x0), min(self.y0, item.y0)
            self.x1, self.y1 = max(self.x1, item.x1), max(self.y1, item.y1)
        lengths = [len(span.text) for span in self.spans]
        weights = [item.x1 - item.x0 + 0.1 for item in items]  # so that a line that falls to one side has one middle
        self.middle = sum(item.middle * weight for item, weight in zip(items, weights, strict=True)) / sum(weights)
        self.em = items[lengths.index(max(lengths))].em  # of the longest: a superscript does not make a line small
        bold = sum(length for span, length in zip(self.spans, lengths, strict=True) if span.is_bold)
        self.is_bold = bold * 2 > sum(lengths)
        gaps = self._gaps()
        self.widest_gap = max(gaps)
        self.text = join_words(zip((span.text for span in self.spans), gaps, strict=True))

    def _gaps(self) -> list[float]:
        """Before each item, in letter heights."""
        if self.is_vertical:
            return [0.0, *((b.y0 - a.y1) / self.em for a, b in pairwise(self.items))]
        return [0.0, *(max(b.x0 - a.x1, a.x0 - b.x1) / self.em for a, b in pairwise(self.items))]


def text_items(page: Page, spans: Sequence[Span]) -> list[Item]:
    """The spans in points, straightened."""
    items = [_text_item(page, span, order) for order, span in enumerate(spans)]
    slope = _slope(items)
    if slope:
        for item in items:
            rise = slope * (item.x0 + item.x1) / 2
            extra = min(abs(slope) * (item.x1 - item.x0) / 2, max(0.0, (item.height - item.em) / 2))
            item.y0, item.y1 = item.y0 - rise + extra, item.y1 - rise - extra
    return items


def _text_item(page: Page, span: Span, order: int) -> Item:
    x0, y0, x1, y1 = placed(page, span.box)
    letters = len(span.text.strip())
    is_vertical = letters >= 2 and y1 - y0 > 1.8 * (x1 - x0)
    em = span.size or (x1 - x0 if is_vertical else y1 - y0) * 0.85
    return Item(x0, y0, x1, y1, span, order, max(em, 0.1), is_vertical)


def placed(page: Page, box: Box) -> tuple[float, float, float, float]:
    """A box in points, its corners in order."""
    width, height = page.width or 1.0, page.height or 1.0
    return (
        min(box.x0, box.x1) * width,
        min(box.y0, box.y1) * height,
        max(box.x0, box.x1) * width,
        max(box.y0, box.y1) * height,
    )


def _slope(items: list[Item]) -> float:
    """By how much lines fall to the right; 0 where they do not, or where there are too few to tell."""
    slopes = []
    row = sorted((item for item in items if not item.is_vertical), key=attrgetter("x0"))
    places = [item.x0 for item in row]
    for at in range(0, len(row), len(row) // 100 + 1):
        left = row[at]
        beside = bisect_left(places, left.x1 - 0.31 * left.em, at + 1)  # those before are under it, or over it
        for right in row[beside : at + 40]:
            gap = right.x0 - left.x1
            if gap > 4 * left.em:
                break
            if gap < -0.3 * left.em or abs(right.em - left.em) > 0.1 * left.em:
                continue
            fall = right.middle - left.middle
            if abs(fall) < 0.45 * left.em:
                slopes.append(2 * fall / (right.x1 + right.x0 - left.x0 - left.x1 or 1.0))
                break
    if len(slopes) < 8:
        return 0.0
    middle = median(slopes)
    spread = median(abs(slope - middle) for slope in slopes)
    return middle if 0.003 < abs(middle) < 0.06 and spread < abs(middle) / 2 else 0.0


def lines_of(items: Sequence[Item]) -> list[Line]:
    """Items of one column as lines from the top; upright ones first, then those that run down the page."""
    level = [item for item in items if not item.is_vertical]
    if not level:
        return _vertical_lines(items)
    em = median(item.em for item in level)
    rows: list[tuple[Item, list[Item]]] = []  # each with the item that says where the line is
    for item in sorted(level, key=lambda item: (item.y0 + item.y1, item.x0, item.order)):
        for at in range(len(rows) - 1, max(-1, len(rows) - 4), -1):
            anchor, members = rows[at]
            if _beside(anchor, item) and not any(_over(other, item) for other in members[-24:]):
                members.append(item)
                if abs(item.height - em) < abs(anchor.height - em):
                    rows[at] = (item, members)
                break
        else:
            rows.append((item, [item]))
    rows.sort(key=lambda row: row[0].middle)
    return [_line(members) for _, members in rows] + _vertical_lines([item for item in items if item.is_vertical])


def _beside(anchor: Item, item: Item) -> bool:
    if anchor.y0 < anchor.y1 <= item.y0 < item.y1:
        return False
    overlap = min(anchor.y1, item.y1) - max(anchor.y0, item.y0)
    smaller = min(anchor.height, item.height)
    if smaller <= 0:
        return anchor.y0 <= item.middle <= anchor.y1 or item.y0 <= anchor.middle <= item.y1
    return overlap > 0.5 * smaller


def _over(one: Item, other: Item) -> bool:
    """One stands above the other, though the boxes of a line that falls to one side reach into the next."""
    shared = min(one.x1, other.x1) - max(one.x0, other.x0)
    is_shared = shared > 0.5 * min(one.x1 - one.x0, other.x1 - other.x0)
    return is_shared and abs(one.middle - other.middle) > 0.3 * max(one.em, other.em)


def _line(members: list[Item]) -> Line:
    if len(members) == 1:
        return Line(members)
    text = "".join(item.thing.text for item in members if isinstance(item.thing, Span))
    if is_right_to_left(text):  # as the file has it: positions alone do not say how a mixed line is read
        return Line(sorted(members, key=lambda item: item.order))
    return Line(sorted(members, key=lambda item: (item.x0, item.order)))


def _vertical_lines(items: Sequence[Item]) -> list[Line]:
    """From the right, as Chinese is read; each line from the top."""
    lines: list[list[Item]] = []
    for item in sorted(items, key=lambda item: (-item.x1, item.y0, item.order)):
        last = lines[-1][-1] if lines else None
        if last and min(last.x1, item.x1) - max(last.x0, item.x0) > 0.5 * min(last.x1 - last.x0, item.x1 - item.x0):
            lines[-1].append(item)
        else:
            lines.append([item])
    return [Line(sorted(line, key=lambda item: (item.y0, item.order))) for line in lines]
