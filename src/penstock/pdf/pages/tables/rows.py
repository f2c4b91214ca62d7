"""Rows of lines without level rulings: which lines go on in the row above, and which begin a new one.

A writer breaks a line inside a cell because the next word does not fit. So a line goes on in the row above when, in
each column both have, the word it begins with would not have fitted; two figures above each other are never one cell.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.pdf.pages.tables.columns import Gap, column_of
from penstock.pdf.pages.tables.lines import BESIDE, Chunk, Line

SPACE = 0.3  # letter heights: a word space
LOOSE = 1.35  # times the tightest line distance of the table: lines further apart are not one cell


class Placed(NamedTuple):
    """A chunk and the first and last column it stands in."""

    chunk: Chunk
    first: int
    last: int


def placed(line: Line, gaps: Sequence[Gap]) -> list[Placed]:
    return [Placed(chunk, *column_of(chunk, gaps)) for chunk in line.chunks]


def row_groups(lines: Sequence[Line], gaps: Sequence[Gap], rules: Sequence[float], em: float) -> list[list[Line]]:
    """Lines of one row together, for lines from the top. A ruling in `rules` (by y) always parts rows."""
    if not lines:
        return []
    limits = _limits(lines, gaps)
    pitches = [lower.middle - upper.middle for upper, lower in pairwise(lines)]
    real = [pitch for pitch in pitches if pitch > BESIDE * em]
    tight = LOOSE * min(real) if real else 0.0
    groups = [[lines[0]]]
    for (upper, lower), pitch in zip(pairwise(lines), pitches, strict=True):
        ruled = any(upper.middle < rule < lower.middle for rule in rules)
        is_beside = pitch < BESIDE * em
        if not ruled and (is_beside or (pitch <= tight and goes_on(groups[-1], lower, gaps, limits, em))):
            groups[-1].append(lower)
        else:
            groups.append([lower])
    return groups


def _limits(lines: Sequence[Line], gaps: Sequence[Gap]) -> list[float]:
    """How far to the right the text of each column comes."""
    limits = [0.0] * (len(gaps) + 1)
    for line in lines:
        for chunk, first, last in placed(line, gaps):
            if first == last:
                limits[first] = max(limits[first], chunk.x1)
    return limits


def goes_on(row: Sequence[Line], lower: Line, gaps: Sequence[Gap], limits: Sequence[float], em: float) -> bool:
    above = {each.first: each for line in row for each in placed(line, gaps)}
    below = {each.first: each for each in placed(lower, gaps)}
    if any(each.first != each.last for each in (*above.values(), *below.values())):
        return False
    last = {each.first for each in placed(row[-1], gaps)}
    shared = last & below.keys()
    if not shared or len(gaps) == 0:
        return False
    if not (below.keys() <= above.keys() or above.keys() <= below.keys()):
        return False
    if (
        len(shared) > 1
        and below.keys() == above.keys()
        and not any(begins_small(each.chunk) for each in below.values())
    ):
        return False
    return all(is_wrapped(above[column].chunk, below[column].chunk, limits[column], em) for column in shared)


def is_wrapped(upper: Chunk, lower: Chunk, limit: float, em: float) -> bool:
    """Whether the first word of `lower` had no room after `upper`."""
    if upper.is_figure and lower.is_figure:
        return False
    if upper.words[-1].text.endswith(("-", "\u2010", "/")) or begins_small(lower):
        return True
    if upper.word_count < 2 or upper.x1 - upper.x0 < (limit - upper.x0) / 2:
        return False
    word = lower.words[0]
    return upper.x1 + SPACE * em + (word.x1 - word.x0) > limit + em / 4


def begins_small(chunk: Chunk) -> bool:
    first = chunk.words[0].text[:1]
    return first.islower() or first in "(&"
