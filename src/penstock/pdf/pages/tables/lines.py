"""Words put into lines, and lines into chunks: words with no more than a word space between them.

A chunk is what a person reads as one piece; a column gap is between chunks.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from penstock.pdf.pages.tables.marks import Word

SAME_LINE = 0.5  # share of the smaller height by which two words of one line overlap
BESIDE = 0.75  # letter heights: lines whose middles are nearer than this stand beside each other
CHUNK_GAP = 0.6  # letter heights: a wider gap is no word space
STRETCHED_SPACE = 2.2  # times the line's usual word space: justified lines have wide spaces everywhere
MANY = 5  # word spaces that tell what is usual in a line
_YEAR = re.compile(r"(18|19|20)\d\d(\s*[/-]\s*\d{1,4})?")
_ALNUM = re.compile(r"\w")
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]")


class Chunk(NamedTuple):
    x0: float
    y0: float
    x1: float
    y1: float
    words: tuple[Word, ...]

    @property
    def text(self) -> str:
        if len(self.words) == 1:
            return self.words[0].text
        return joined(word.text for word in self.words)

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2

    @property
    def is_figure(self) -> bool:
        return is_figure(self.text)

    @property
    def word_count(self) -> float:
        """A span may hold several words; two Chinese characters are about one."""
        text = self.text
        if text.isascii():
            return len(text.split())
        return len(text.split()) + len(_WIDE.findall(text)) / 2


class Line(NamedTuple):
    y0: float
    y1: float
    chunks: tuple[Chunk, ...]

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2

    @property
    def x0(self) -> float:
        return self.chunks[0].x0

    @property
    def x1(self) -> float:
        return max([chunk.x1 for chunk in self.chunks])

    @property
    def word_count(self) -> float:
        return sum(chunk.word_count for chunk in self.chunks)


def joined(texts: Iterable[str]) -> str:
    """Pieces of text with spaces between, but none between Chinese characters."""
    out = ""
    for text in texts:
        if out and not (_WIDE.match(out[-1]) and _WIDE.match(text[0])):
            out += " "
        out += text
    return out


def is_figure(text: str) -> bool:
    """A number, an amount, a date, or a mark that stands for one ("-", "n.a.")."""
    letters = _ALNUM.findall(text)
    if not letters:
        return len(text) <= 3
    digits = sum(letter.isdigit() for letter in letters)
    return 2 * digits >= len(letters) or text.casefold() in {"n.a.", "n/a", "na", "nil", "n.a"}


def is_year(text: str) -> bool:
    return bool(_YEAR.fullmatch(text.strip("*()")))


def is_datum(text: str) -> bool:
    """A figure that is no part of a heading, as years and units in brackets are."""
    return is_figure(text) and not is_year(text) and not text.startswith("(")


def lines_of(words: Sequence[Word], em: float) -> list[Line]:
    """Each word joins the line whose last word it stands beside; a skewed line is followed from word to word."""
    if len(words) == 1:
        return [_line([words[0]], em)]
    open_lines: list[list[Word]] = []
    shelves: dict[int, list[list[Word]]] = {}  # open lines by the height of their last word: only near ones are tried
    for word in sorted(words, key=lambda word: (word.x0, word.y0, word.text)):
        shelf = int(word.middle // em)
        near = [line for each in (shelf - 1, shelf, shelf + 1) for line in shelves.get(each, ())]
        best = _line_of(word, near, em)
        if best is None:
            best = []
            open_lines.append(best)
        else:
            shelves[int(best[-1].middle // em)].remove(best)
        best.append(word)
        shelves.setdefault(shelf, []).append(best)
    found = [_line(line, em) for line in open_lines]
    return sorted(found, key=lambda line: (line.middle, line.x0))


def _line_of(word: Word, lines: Sequence[list[Word]], em: float) -> list[Word] | None:
    best, best_off = None, 0.0
    for line in lines:
        last = line[-1]
        shared = min(last.y1, word.y1) - max(last.y0, word.y0)
        if shared < SAME_LINE * min(last.y1 - last.y0, word.y1 - word.y0):
            continue
        off = abs(last.y0 + last.y1 - word.y0 - word.y1)
        if word.x0 >= last.x1 - em / 2 and (best is None or off < best_off):
            best, best_off = line, off
    return best


def _line(words: list[Word], em: float) -> Line:
    if len(words) == 1:
        chunk = chunk_of(words)
        return Line(chunk.y0, chunk.y1, (chunk,))
    gaps = [right.x0 - left.x1 for left, right in pairwise(words)]
    usual = median(gaps) if len(gaps) >= MANY else 0.0
    limit = CHUNK_GAP * em
    if 0 < usual <= limit:
        limit = max(limit, STRETCHED_SPACE * usual)
    parts = [[words[0]]]
    for word, gap in zip(words[1:], gaps, strict=True):
        if gap > limit:
            parts.append([word])
        else:
            parts[-1].append(word)
    chunks = tuple(chunk_of(part) for part in parts)
    return Line(min(chunk.y0 for chunk in chunks), max(chunk.y1 for chunk in chunks), chunks)


def beside(lines: Sequence[Line], em: float) -> list[Line]:
    """Lines that stand beside each other, half a line up or down, made one: a figure centred on two lines of text."""
    found: list[Line] = []
    first = last = 0.0
    for line in lines:
        is_beside = found and line.middle - last < BESIDE * em and line.middle - first < 2 * BESIDE * em
        if not is_beside:
            first = line.middle
        last = line.middle
        if is_beside:
            upper = found.pop()
            chunks = tuple(sorted((*upper.chunks, *line.chunks), key=lambda chunk: (chunk.x0, chunk.y0)))
            found.append(Line(min(upper.y0, line.y0), max(upper.y1, line.y1), chunks))
        else:
            found.append(line)
    return found


def chunk_of(words: Sequence[Word]) -> Chunk:
    if len(words) == 1:
        return Chunk(*words[0][:4], tuple(words))
    return Chunk(
        min(word.x0 for word in words),
        min(word.y0 for word in words),
        max(word.x1 for word in words),
        max(word.y1 for word in words),
        tuple(words),
    )
