"""The letters of running text: what headings stand out from.

Sizes of written text are exact. The height of a recognised line is that of its box, which is a third lower where no
letter goes up or down and a little higher where the recogniser was generous. So such a line is large only if it is
beyond all heights that run on from the usual one, in small steps, and its letters are wider as well.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.pdf.pages.joining import weight
from penstock.pdf.pages.lines import Item, Line
from penstock.pdf.pages.model import Origin, Span

_CLEARLY = 1.3  # times the usual height, of a recognised line
_STEP = 1.1  # between neighbouring heights of the same letters
_WIDER = 1.1  # times the usual width of a letter; what is larger by a third is so in both ways, nearly


@dataclass(frozen=True, slots=True)
class Body:
    """What is usual on a page."""

    em: float
    common: frozenset[float]  # sizes too frequent to be headings', rounded
    highest: float = 0.0  # of recognised lines that are running text for all that their heights say
    advance: float = 0.0  # usual width of a recognised letter

    @classmethod
    def of(cls, items: Sequence[Item], em: float | None = None) -> "Body":
        letters: Counter[float] = Counter()
        recognised: list[tuple[Item, Span]] = []
        for item in items:
            if isinstance(item.thing, Span):
                letters[_rounded(item.em)] += len(item.thing.text)
                if item.thing.origin is not Origin.TEXT and not item.is_vertical:
                    recognised.append((item, item.thing))
        if not letters:
            return cls(em or 10.0, frozenset())
        most = max(letters.values())
        common = frozenset(size for size, count in letters.items() if count * 3 > most)
        usual = max(size for size, count in letters.items() if count == most)
        heights = [(item.em, len(span.text)) for item, span in recognised]
        if 2 * sum(count for _, count in heights) > letters.total():
            usual = _middle(heights)
        em = em or max(usual, 0.1)
        widths = [((item.x1 - item.x0) / max(weight(span.text), 1), len(span.text)) for item, span in recognised]
        return cls(em, common, _run_on(em, [height for height, _ in heights]), _middle(widths))

    def ratio(self, line: Line) -> float:
        """How large a line is beside running text, where its size says something."""
        ratio = line.em / self.em
        if line.is_recognised:
            return ratio if ratio >= _CLEARLY and line.em > self.highest and self._is_wide(line) else 1.0
        return 1.0 if _rounded(line.em) in self.common and ratio < 2 else ratio

    def _is_wide(self, line: Line) -> bool:
        if line.is_vertical:
            return True
        width = sum(item.x1 - item.x0 for item in line.items)
        return width >= _WIDER * self.advance * sum(weight(span.text) for span in line.spans)


def _rounded(em: float) -> float:
    return round(em * 2) / 2


def _middle(values: Sequence[tuple[float, int]]) -> float:
    """The median, each value counted so many times."""
    left = sum(count for _, count in values) / 2
    for value, count in sorted(values):
        left -= count
        if left <= 0:
            return value
    return 0.0


def _run_on(em: float, heights: Sequence[float]) -> float:
    """The highest that is reached from `em` in small steps."""
    highest = em
    for height in sorted(heights):
        if height > _STEP * highest:
            break
        highest = max(highest, height)
    return highest
