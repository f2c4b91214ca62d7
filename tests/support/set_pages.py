"""Pages set by hand: words and rulings placed in points, told as the shares of a page that the finder reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.pdf.pages.model import Box, Span

WIDTH, HEIGHT = 512.0, 1024.0
LETTER = 8.0  # height of the letters
ADVANCE = 4.0  # width of one


@dataclass
class SetPage:
    """A page being set. Text is put word by word, as finely as a reader may tell it."""

    size: tuple[float, float] = (WIDTH, HEIGHT)
    spans: list[Span] = field(default_factory=list)
    rulings: list[tuple[float, float, float, float]] = field(default_factory=list)

    def write(self, x: float, y: float, text: str, *, right: bool = False) -> None:
        """From `x` on, or up to it."""
        if right:
            x -= len(text) * ADVANCE
        for word in text.split(" "):
            box = self._shares(x, y, x + len(word) * ADVANCE, y + LETTER)
            if word:
                self.spans.append(Span(f"s{len(self.spans) + 1}", word, Box(*box)))
            x += (len(word) + 0.5) * ADVANCE

    def write_rows(self, xs: Sequence[float], y: float, rows: Sequence[Sequence[str]], pitch: float = 12.0) -> float:
        """Rows of left-aligned cells; returns where the next one would be."""
        for row in rows:
            for x, text in zip(xs, row, strict=True):
                if text:
                    self.write(x, y, text)
            y += pitch
        return y

    def rule(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.rulings.append(self._shares(x0, y0, x1, y1))

    def rule_grid(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        for x in xs:
            self.rule(x, ys[0], x, ys[-1])
        for y in ys:
            self.rule(xs[0], y, xs[-1], y)

    def write_prose(self, x: float, y: float, lines: int, words: int = 9) -> float:
        for number in range(lines):
            text = " ".join(
                "river bank water stone field"[(number * 7 + at * 5) % 24 :][:4].strip() or "a" for at in range(words)
            )
            self.write(x, y, text)
            y += 10
        return y

    def _shares(self, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
        width, height = self.size
        return x0 / width, y0 / height, x1 / width, y1 / height
