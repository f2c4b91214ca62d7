"""Columns of lines without upright rulings: the strips of paper that nearly every full line leaves white."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.pdf.pages.tables.lines import Chunk, Line, chunk_of

FULL = 0.6  # of the usual number of chunks: lines with fewer (wrapped text, sub-headings) do not vote on columns
CROSSED = 0.1  # share of voting lines that may stand across a column gap
NARROWEST = 0.35  # letter heights: a narrower white strip is no column gap
SIGNS = frozenset("$€£¥%")  # stand beside their figure, not in a column of their own
SUPPORT = 0.2  # share of voting lines with something in a column, for it to be one


class Gap(NamedTuple):
    """A white strip between two columns."""

    start: float
    end: float

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


def voters(lines: Sequence[Line]) -> list[Line]:
    several = [line for line in lines if len(line.chunks) > 1]
    if not several:
        return []
    counts = sorted(len(line.chunks) for line in several)
    usual = counts[(len(counts) * 4) // 5] if len(counts) > 1 else counts[0]
    return [line for line in several if len(line.chunks) >= FULL * usual]


def column_gaps(lines: Sequence[Line], em: float) -> list[Gap]:
    full = voters(lines)
    if not full:
        return []
    gaps = _white_strips(full, em)
    return _supported(gaps, full)


def _white_strips(lines: Sequence[Line], em: float) -> list[Gap]:
    events = sorted((edge, step) for line in lines for chunk in line.chunks for edge, step in _edges(chunk))
    allowed = int(CROSSED * len(lines))
    found: list[Gap] = []
    depth, white_from = 0, None
    for edge, step in events:
        before, depth = depth, depth + step
        if before > allowed >= depth:
            white_from = edge
        elif before <= allowed < depth and white_from is not None:
            if edge - white_from >= NARROWEST * em:
                found.append(Gap(white_from, edge))
            white_from = None
    return found


def _edges(chunk: Chunk) -> tuple[tuple[float, int], tuple[float, int]]:
    return (chunk.x0, 1), (max(chunk.x1, chunk.x0), -1)


def _supported(gaps: list[Gap], lines: Sequence[Line]) -> list[Gap]:
    """Without the columns that hardly any line uses (a stray mark, a currency sign on the first row)."""
    needed = max(2, SUPPORT * len(lines)) if len(lines) > 2 else 1
    while gaps:
        used = [0] * (len(gaps) + 1)
        for line in lines:
            for column in {column_of(chunk, gaps)[0] for chunk in line.chunks if chunk.text not in SIGNS}:
                used[column] += 1
        weak = next((column for column, count in enumerate(used) if count < needed), None)
        if weak is None:
            break
        beside = [number for number in (weak - 1, weak) if 0 <= number < len(gaps)]
        narrow = min(beside, key=lambda number: gaps[number].end - gaps[number].start)
        gaps = gaps[:narrow] + gaps[narrow + 1 :]
    return gaps


def column_of(chunk: Chunk, gaps: Sequence[Gap]) -> tuple[int, int]:
    """First and last column a chunk stands in.

    It spans two columns when it reaches into both, or stands with its middle between them; a long one that only
    reaches out into the gap does not.
    """
    first = last = 0
    middle = (chunk.x0 + chunk.x1) / 2
    for gap in gaps:
        is_over = gap.start < middle < gap.end
        if gap.end <= chunk.x0 or (gap.middle < chunk.x0 and not is_over):
            first += 1
            last += 1
        elif chunk.x1 > gap.end and (chunk.x0 < gap.start or is_over):
            last += 1
        elif chunk.x1 > gap.end:
            first += 1
            last += 1
    return first, last


def cut_at_gaps(line: Line, cuts: Sequence[float]) -> Line:
    """Chunks parted where an upright ruling stands between two of their words."""
    chunks: list[Chunk] = []
    for chunk in line.chunks:
        part = [chunk.words[0]]
        for left, right in pairwise(chunk.words):
            if any(
                left.x1 - 1e-6 <= cut <= right.x0 + 1e-6 or (left.x0 + left.x1) / 2 < cut < (right.x0 + right.x1) / 2
                for cut in cuts
            ):
                chunks.append(chunk_of(part))
                part = []
            part.append(right)
        chunks.append(chunk_of(part))
    return Line(line.y0, line.y1, tuple(chunks))
