"""Tables without drawn cells: lines, the white strips between columns, and rows, made into a grid of cells."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from penstock.pdf.pages.tables.columns import Gap, column_gaps
from penstock.pdf.pages.tables.header import MOST_LINES, header_length, header_rows, headings
from penstock.pdf.pages.tables.lines import Chunk, Line, is_datum, joined
from penstock.pdf.pages.tables.marks import Rule
from penstock.pdf.pages.tables.rows import placed, row_groups


@dataclass
class Piece:
    """What stands in a cell, and the rows and columns it takes (both ends are part of it)."""

    top: int
    bottom: int
    first: int
    last: int
    chunks: list[Chunk] = field(default_factory=list)


class Laid(NamedTuple):
    xs: list[float]
    ys: list[float]
    pieces: list[Piece]
    header: int


def header_of(pieces: Sequence[Piece], rows: int) -> int:
    """How many rows of drawn cells are header: those above the first row of data; one if no row is told by figures."""
    for row in range(min(rows, MOST_LINES)):
        texts = {p.first: joined(chunk.text for chunk in p.chunks) for p in pieces if p.top <= row <= p.bottom}
        data = [text for column, text in texts.items() if column > 0 and text]
        figures = [text for text in data if is_datum(text)]
        label = texts.get(0, "")  # without one, a row may still be header: the corner is often empty
        if (label and is_datum(label)) or (figures and 2 * len(figures) >= len(data)):
            return row
    return 1


def lay_out(lines: Sequence[Line], rules: Sequence[Rule], gaps: Sequence[Gap], em: float) -> Laid:
    head = header_length(lines, gaps, rules)
    pieces, bands = _header(lines[:head], gaps, rules, em)
    wide = 0.6 * (max(line.x1 for line in lines) - min(line.x0 for line in lines))
    levels = [rule.at for rule in rules if rule.length >= wide]
    header = len(bands)
    for group in row_groups(lines[head:], gaps, levels, em):
        pieces.extend(_row(group, gaps, len(bands)))
        bands.append((min(line.y0 for line in group), max(line.y1 for line in group)))
    xs = [min(line.x0 for line in lines), *(gap.middle for gap in gaps), max(line.x1 for line in lines)]
    return Laid(xs, _edges(bands), pieces, header)


def _header(
    lines: Sequence[Line], gaps: Sequence[Gap], rules: Sequence[Rule], em: float
) -> tuple[list[Piece], list[tuple[float, float]]]:
    found = headings(lines, gaps, rules, em)
    rows = header_rows(found, len(lines))
    pieces = [Piece(rows[each.top], rows[each.bottom], each.first, each.last, each.chunks) for each in found]
    bands: list[tuple[float, float]] = []
    for line, row in zip(lines, rows, strict=True):
        if row == len(bands):
            bands.append((line.y0, line.y1))
        else:
            bands[-1] = (bands[-1][0], max(bands[-1][1], line.y1))
    return _apart(pieces), bands


def _apart(pieces: list[Piece]) -> list[Piece]:
    """Pieces that would take the same place are made one."""
    found: list[Piece] = []
    for each in pieces:
        piece = each
        while other := next((other for other in found if _overlap(other, piece)), None):
            found.remove(other)
            piece = Piece(
                min(piece.top, other.top),
                max(piece.bottom, other.bottom),
                min(piece.first, other.first),
                max(piece.last, other.last),
                [*other.chunks, *piece.chunks],
            )
        found.append(piece)
    return found


def _overlap(one: Piece, other: Piece) -> bool:
    return one.top <= other.bottom and other.top <= one.bottom and one.first <= other.last and other.first <= one.last


def _row(group: Sequence[Line], gaps: Sequence[Gap], row: int) -> list[Piece]:
    return _apart(
        [Piece(row, row, first, last, [chunk]) for line in group for chunk, first, last in placed(line, gaps)]
    )


def _edges(bands: Sequence[tuple[float, float]]) -> list[float]:
    edges = [bands[0][0]]
    edges.extend((upper[1] + lower[0]) / 2 for upper, lower in pairwise(bands))
    edges.append(bands[-1][1])
    for number in range(1, len(edges)):
        edges[number] = max(edges[number], edges[number - 1])
    return edges


def gaps_of(lines: Sequence[Line], uprights: Sequence[float], em: float) -> list[Gap]:
    """White strips, and drawn ones: an upright ruling is a gap of no width and takes the place of a strip it is in."""
    drawn = [Gap(x, x) for x in uprights]
    free = [
        gap for gap in column_gaps(lines, em) if not any(gap.start - em / 4 <= x <= gap.end + em / 4 for x in uprights)
    ]
    return sorted([*drawn, *free])
