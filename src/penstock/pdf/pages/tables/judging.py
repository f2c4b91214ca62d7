"""Whether lines that stand in columns are a table: not running text in two columns, not a list, not a contents page."""

import re
from collections.abc import Sequence
from statistics import mean, median

from penstock.pdf.pages.tables.columns import Gap, voters
from penstock.pdf.pages.tables.lines import Chunk, Line
from penstock.pdf.pages.tables.marks import Levels, Marks
from penstock.pdf.pages.tables.rows import placed

FEWEST_ROWS = 3  # two lines agree by chance
FEWEST_BOUNDED = 2  # rows between two rulings
FIGURES = 0.6  # share of figures in the second of two columns
WORDY = 5.0  # words a piece, on average: a column of running text
ALIGNED = 0.6  # share of pieces that stand at an edge or the middle of their column
FILLED = 0.4  # share of places with something in them
ON_RULINGS = 0.3  # share of lines with a ruling at their middle: more, and it is a chart
BESIDE = 2.0  # letter heights from a word to the ruling beside it
_BULLET = re.compile(r"^\W$|^\(?[\divxlc]{1,4}[.)]+$|^\(?[a-z][.)]$|^[\d.]+$", re.IGNORECASE)


def is_table(lines: Sequence[Line], gaps: Sequence[Gap], is_bounded: bool, em: float) -> bool:
    """Rulings above and below speak for a table; without them its rows must be more and its text short."""
    rows = len(voters(lines))
    columns = _columns(lines, gaps)
    if rows < (FEWEST_BOUNDED if is_bounded else FEWEST_ROWS) or not all(columns):
        return False
    if sum(len(column) for column in columns) < FILLED * rows * len(columns):
        return False
    if (len(columns) == 2 and _is_list(columns[0])) or _is_contents(lines, columns[-1]):
        return False
    return is_bounded or (_is_plain_table(columns, rows) and _alignment(columns, em) >= ALIGNED)


def _is_plain_table(columns: Sequence[Sequence[Chunk]], rows: int) -> bool:
    wordy = [mean(chunk.word_count for chunk in column) >= WORDY for column in columns]
    if len(columns) > 2:
        return not all(wordy)
    figures = mean(chunk.is_figure for chunk in columns[1])
    return figures >= FIGURES or (rows > FEWEST_ROWS and not any(wordy))


def is_drawing(lines: Sequence[Line], marks: Marks) -> bool:
    """A chart: slanted strokes among the words, or rulings at the middle of lines (grid lines, legend samples)."""
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    y0, y1 = lines[0].y0, lines[-1].y1
    if sum(1 for x, y in marks.slants if x0 <= x <= x1 and y0 <= y <= y1) >= max(4, len(lines)):
        return True
    reach = BESIDE * marks.em
    levels = Levels(marks.across)
    ruled = [
        line
        for line in lines
        if any(
            rule.start < line.x1 + reach and rule.end > line.x0 - reach
            for rule in levels.near(line.middle, marks.em / 5)
        )
    ]
    return len(ruled) >= 2 and len(ruled) >= ON_RULINGS * len(lines)


def _columns(lines: Sequence[Line], gaps: Sequence[Gap]) -> list[list[Chunk]]:
    columns: list[list[Chunk]] = [[] for _ in range(len(gaps) + 1)]
    for line in lines:
        for chunk, first, last in placed(line, gaps):
            if first == last:
                columns[first].append(chunk)
    return columns


def _alignment(columns: Sequence[Sequence[Chunk]], em: float) -> float:
    """Share of pieces that stand at the left edge, the right edge or the middle of their column."""
    aligned = 0
    for column in columns:
        edges = ([c.x0 for c in column], [c.x1 for c in column], [(c.x0 + c.x1) / 2 for c in column])
        aligned += max(sum(1 for x in each if abs(x - median(each)) <= em * 0.6) for each in edges)
    return aligned / sum(len(column) for column in columns)


def _is_contents(lines: Sequence[Line], last: Sequence[Chunk]) -> bool:
    """Page numbers that only grow, after leaders."""
    led = sum(1 for line in lines if any(word.is_led for chunk in line.chunks for word in chunk.words))
    if led < len(lines) / 3:
        return False
    numbers = [int(chunk.text) for chunk in last if chunk.text.isdecimal()]
    return len(numbers) >= FIGURES * len(last) and numbers == sorted(numbers)


def _is_list(first: Sequence[Chunk]) -> bool:
    return mean(bool(_BULLET.match(chunk.text)) for chunk in first) >= 0.7
