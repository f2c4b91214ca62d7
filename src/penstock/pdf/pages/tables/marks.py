"""The page as the table finder sees it: words and straight rulings in points, and the letter height as its measure.

Every distance below is a multiple of the page's usual letter height, so a table is found alike at any scale and place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from penstock.pdf.pages.model import Span

Ruling = tuple[float, float, float, float]  # a line segment in shares of the page, like the boxes of spans

STRAIGHT = 0.02  # sideways share of a ruling's length up to which it counts as level or upright: about one degree
JOIN = 0.25  # letter heights: rulings and edges nearer than this are one (both edges of a thin bar, a double line)
SHORTEST_RULING = 0.8  # letter heights: shorter marks are dashes and letter parts, not rulings
LEADER = "...."  # dots that lead the eye across a gap: they are no text


class Word(NamedTuple):
    """A span in points. `at` is its place in the list of spans."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str
    at: int
    is_led: bool = False  # leaders follow

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


class Rule(NamedTuple):
    """A level or upright line: where it stands (`at`), and from where to where it runs."""

    at: float
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


class Levels:
    """Rulings to be asked for by where they stand."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = sorted(rules)
        self._places = [rule.at for rule in self._rules]

    def near(self, place: float, reach: float) -> list[Rule]:
        """Those nearer than `reach`."""
        first = bisect_left(self._places, place - 2 * reach)
        last = bisect_left(self._places, place + 2 * reach, first)
        return [rule for rule in self._rules[first:last] if abs(rule.at - place) < reach]

    def between(self, start: float, end: float) -> list[Rule]:
        """Those after one place and before the other."""
        return self._rules[bisect_right(self._places, start) : bisect_left(self._places, end)]


class Marks(NamedTuple):
    words: list[Word]
    across: list[Rule]  # level rulings, by their y
    down: list[Rule]  # upright rulings, by their x
    em: float
    slants: list[tuple[float, float]]  # middles of strokes that are neither level nor upright: drawings have them


def marks(spans: Sequence[Span], rulings: Iterable[Ruling], size: tuple[float, float]) -> Marks:
    width, height = size
    heights = [span.box.height * height for span in spans if span.text.strip()]
    em = median(heights) if heights else 0.0
    if em <= 0:
        return Marks([], [], [], 1.0, [])
    words = [word for at, span in enumerate(spans) for word in _parts(span, at, size, em)]
    words = _without_leaders(words, em)
    words.sort(key=lambda word: (word.y0, word.x0, word.x1, word.text))
    across, down, slants = _straight(rulings, width, height)
    return Marks(words, _joined(across, em), _joined(down, em), em, slants)


def _parts(span: Span, at: int, size: tuple[float, float], em: float) -> list[Word]:
    text, box, (width, height) = span.text.strip(), span.box, size
    if not text:
        return []
    x0, y0, x1, y1 = box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height
    dots = text.find(LEADER)
    if dots < 0:
        return [Word(x0, y0, x1, y1, text, at)]
    # Leaders fill the gap between columns; only what stands before and after them is looked at.
    head, tail = text[:dots].rstrip(), text[dots:].lstrip("._·… ")
    found = []
    if head:
        found.append(Word(x0, y0, min(x1, x0 + len(head) * em / 2), y1, head, at, True))
    if tail and not head:
        found.append(Word(max(x0, x1 - len(tail) * em / 2), y0, x1, y1, tail, at))
    return found


def _without_leaders(words: list[Word], em: float) -> list[Word]:
    """Leaders may come dot by dot: dots beside each other are no text, one alone may stand for "nothing"."""
    dots = [word for word in words if not word.text.strip("._·…")]
    dropped = {
        word.at
        for word in dots
        for other in dots
        if word is not other
        and abs(word.middle - other.middle) < em / 2
        and max(word.x0 - other.x1, other.x0 - word.x1) < em
    }
    return [word for word in words if word.at not in dropped]


def _straight(
    rulings: Iterable[Ruling], width: float, height: float
) -> tuple[list[Rule], list[Rule], list[tuple[float, float]]]:
    across: list[Rule] = []
    down: list[Rule] = []
    slants: list[tuple[float, float]] = []
    for ruling in rulings:
        x0, y0, x1, y1 = ruling[0] * width, ruling[1] * height, ruling[2] * width, ruling[3] * height
        if x0 > x1 or y0 > y1:
            x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
        if y1 - y0 <= STRAIGHT * (x1 - x0):
            across.append(Rule((y0 + y1) / 2, x0, x1))
        elif x1 - x0 <= STRAIGHT * (y1 - y0):
            down.append(Rule((x0 + x1) / 2, y0, y1))
        else:
            slants.append(((x0 + x1) / 2, (y0 + y1) / 2))
    return across, down, slants


def _joined(rules: list[Rule], em: float) -> list[Rule]:
    """Pieces of one line made one: dashes, a line drawn cell by cell, both edges of a thin bar."""
    found: list[Rule] = []
    for group in _levels(sorted(rules), JOIN * em):
        at = sum(rule.at for rule in group) / len(group)
        pieces = sorted((rule.start, rule.end) for rule in group)
        start, end = pieces[0]
        for next_start, next_end in pieces[1:]:
            if next_start > end + JOIN * em:
                found.append(Rule(at, start, end))
                start, end = next_start, next_end
            end = max(end, next_end)
        found.append(Rule(at, start, end))
    return [rule for rule in found if rule.length >= SHORTEST_RULING * em]


def _levels(rules: list[Rule], reach: float) -> list[list[Rule]]:
    groups: list[list[Rule]] = []
    for rule in rules:
        if groups and rule.at - groups[-1][0].at <= reach:
            groups[-1].append(rule)
        else:
            groups.append([rule])
    return groups


def clusters(values: Iterable[float], reach: float) -> list[float]:
    """Values nearer than `reach` to the first of their group, as one mean each."""
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][0] <= reach:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]
