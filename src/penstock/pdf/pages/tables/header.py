"""Header lines of a table: where they end, and how their pieces make cells.

A heading may stand over several columns, and run over several lines; lines of the same heading stand close together
over the same columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.pdf.pages.tables.columns import Gap
from penstock.pdf.pages.tables.lines import Chunk, Line, is_year
from penstock.pdf.pages.tables.marks import Rule
from penstock.pdf.pages.tables.rows import Placed, begins_small, placed

MOST_LINES = 6  # a header is not longer
WIDE = 0.8  # of the width of the table: a ruling as long goes under a whole row
LABELLED = 0.75  # of the columns: a line without a label and with fewer figures is a line of headings
TIGHT = 0.7  # letter heights between two lines of one heading


@dataclass
class Heading:
    first: int
    last: int
    top: int  # first and last header line it stands on
    bottom: int
    chunks: list[Chunk] = field(default_factory=list)


def header_length(lines: Sequence[Line], gaps: Sequence[Gap], rules: Sequence[Rule]) -> int:
    """How many lines from the top are header: those above the first ruling, or above the first line of figures."""
    if len(lines) < 2:
        return 0
    figures = next((number for number, line in enumerate(lines) if _is_data(line, gaps)), None)
    wide = WIDE * (max(line.x1 for line in lines) - min(line.x0 for line in lines))
    most = min(MOST_LINES, len(lines) - 1 if figures is None else figures)
    ruled = [sum(1 for line in lines if line.middle < rule.at) for rule in rules if rule.length >= wide]
    ruled = [above for above in ruled if 0 < above <= most]
    if ruled:
        return ruled[0] if figures is None else ruled[-1]
    if figures is None or figures > MOST_LINES:
        return 1
    while figures and _is_label_of(lines[figures - 1], lines[figures], gaps):
        figures -= 1
    return figures


def _is_data(line: Line, gaps: Sequence[Gap]) -> bool:
    """Figures in most of a line's columns after the first; years alone are headings."""
    pieces = placed(line, gaps)
    data = [each.chunk for each in pieces if each.first > 0]
    if not data or (pieces[0].first > 0 and len(data) < LABELLED * len(gaps)):
        return False
    figures = [chunk for chunk in data if chunk.is_figure]
    if 2 * len(figures) < len(data):
        return False
    return not all(is_year(chunk.text) for chunk in figures)


def _is_label_of(line: Line, below: Line, gaps: Sequence[Gap]) -> bool:
    """The first part of a label that goes on in the line of its figures."""
    pieces = placed(line, gaps)
    return len(pieces) == 1 and pieces[0].last == 0 and begins_small(below.chunks[0])


def headings(lines: Sequence[Line], gaps: Sequence[Gap], rules: Sequence[Rule], em: float) -> list[Heading]:
    found: list[Heading] = []
    for number, line in enumerate(lines):
        for chunk, first, last in placed(line, gaps):
            above = _continued(found, Placed(chunk, first, last), rules, em)
            if above is None:
                found.append(Heading(first, last, number, number, [chunk]))
            else:
                above.bottom = number
                above.chunks.append(chunk)
    return found


def _continued(found: Sequence[Heading], piece: Placed, rules: Sequence[Rule], em: float) -> Heading | None:
    """The heading that `piece` goes on: the lowest over the same columns, if it is near and no ruling is between."""
    chunk, first, last = piece
    over = [heading for heading in found if heading.first <= last and first <= heading.last]
    if not over or (over[-1].first, over[-1].last) != (first, last):
        return None
    lowest = over[-1].chunks[-1]
    parted = any(
        lowest.middle < rule.at < chunk.middle and rule.start < chunk.x1 and chunk.x0 < rule.end for rule in rules
    )
    return None if parted or chunk.y0 - lowest.y1 > TIGHT * em else over[-1]


def header_rows(found: Sequence[Heading], lines: int) -> list[int]:
    """The row of each header line: lines stay in one row until a column has a new heading."""
    rows: list[int] = []
    row = 0
    for number in range(lines):
        begun = [heading for heading in found if heading.top == number]
        ended = [heading for heading in found if heading.bottom < number]
        since = rows.index(row) if row in rows else number
        if number and any(
            old.first <= new.last and new.first <= old.last and old.bottom >= since for new in begun for old in ended
        ):
            row += 1
        rows.append(row)
    return rows
