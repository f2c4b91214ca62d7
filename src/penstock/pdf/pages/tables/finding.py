"""The table finder: first tables with drawn cells, then those whose words alone stand in rows and columns.

Works on shares of the page and tells cells as shares again. No word is given to two cells.
"""

from collections.abc import Iterable, Sequence
from math import inf

from penstock.pdf.pages.model import Box, Cell, Span, Table, TableKind
from penstock.pdf.pages.tables.aligned import Laid, Piece, gaps_of, lay_out
from penstock.pdf.pages.tables.columns import cut_at_gaps
from penstock.pdf.pages.tables.judging import is_drawing, is_table
from penstock.pdf.pages.tables.lattice import lattices
from penstock.pdf.pages.tables.lines import SAME_LINE, Line, joined, lines_of
from penstock.pdf.pages.tables.marks import Marks, Rule, Ruling, Word
from penstock.pdf.pages.tables.marks import marks as marks_of
from penstock.pdf.pages.tables.regions import bounded, header_start, runs, text_columns
from penstock.pdf.pages.tables.ruled import ruled_table, words_in

# No page that people read has more; what has more is made to keep a machine busy, or a drawing.
MOST_WORDS = 8_000
MOST_RULINGS = 1_000
MOST_LATTICES = 200  # the smallest are left out first

Extent = tuple[float, float, float, float]


class Found:
    """A table in points, before it is told as shares."""

    def __init__(self, kind: TableKind, laid: Laid) -> None:
        self.kind = kind
        self.laid = laid
        self.box: Extent = (laid.xs[0], laid.ys[0], laid.xs[-1], laid.ys[-1])


def find_tables(spans: Sequence[Span], rulings: Iterable[Ruling], size: tuple[float, float]) -> list[Table]:
    marks = marks_of(spans, rulings, size)
    if len(marks.words) > MOST_WORDS:
        return []
    if len(marks.across) + len(marks.down) > MOST_RULINGS:
        marks = marks._replace(across=[], down=[])
    if not (marks.across and marks.down) and not _may_share_lines(marks.words):
        return []
    found: list[Found] = []
    free = list(marks.words)
    for across, down in sorted(lattices(marks), key=_area)[-MOST_LATTICES:]:
        table = _of_lattice(across, down, free, marks)
        if table is not None and not any(_overlap(table.box, other.box) for other in found):
            found.append(table)
            free = _without(free, table)
    found.extend(_aligned(free, marks, found))
    found.sort(key=lambda table: (table.box[1], table.box[0]))
    return [_told(table, number, spans, size) for number, table in enumerate(found, 1)]


def _may_share_lines(words: list[Word]) -> bool:
    """False where each word, from the top, is a line of its own: without drawn cells there is no table then."""
    least = SAME_LINE * min((word.y1 - word.y0 for word in words), default=0.0)
    lowest = -inf
    for word in words:
        if lowest - word.y0 >= least:
            return True
        lowest = max(lowest, word.y1)
    return False


def _of_lattice(across: list[Rule], down: list[Rule], words: list[Word], marks: Marks) -> Found | None:
    laid = ruled_table(across, down, words, marks)
    if laid is not None:
        return Found(TableKind.RULED, laid)
    inside = words_in(words, _extent(across, down))
    return _of_lines(lines_of(inside, marks.em), across, marks, False) if inside else None


def _extent(across: list[Rule], down: list[Rule]) -> Extent:
    return (
        min([rule.start for rule in across] + [rule.at for rule in down]),
        min([rule.start for rule in down] + [rule.at for rule in across]),
        max([rule.end for rule in across] + [rule.at for rule in down]),
        max([rule.end for rule in down] + [rule.at for rule in across]),
    )


def _area(lattice: tuple[list[Rule], list[Rule]]) -> tuple[float, float, float]:
    """Small lattices come first: a frame around the page comes after the tables in it."""
    x0, y0, x1, y1 = _extent(*lattice)
    return (x1 - x0) * (y1 - y0), y0, x0


def _overlap(one: Extent, other: Extent) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _without(words: list[Word], table: Found) -> list[Word]:
    taken = {word.at for piece in table.laid.pieces for chunk in piece.chunks for word in chunk.words}
    inside = {word.at for word in words_in(words, table.box)}
    return [word for word in words if word.at not in taken and word.at not in inside]


def _aligned(words: list[Word], marks: Marks, found: list[Found]) -> list[Found]:
    em = marks.em
    rules = [rule for rule in marks.across if not any(_inside(rule, table.box) for table in found)]
    tables: list[Found] = []
    all_lines = lines_of(words, em)
    for box in bounded(all_lines, rules, em):
        inside = words_in(words, box)
        table = _of_lines(lines_of(inside, em), rules, marks, True) if inside else None
        if table is not None:
            tables.append(table)
            words = _without(words, table)
    for lines in text_columns(lines_of(words, em) if tables else all_lines):
        tables.extend(_of_runs(lines, rules, marks))
    kept: list[Found] = []
    for table in tables:
        if not any(_overlap(table.box, other.box) for other in (*found, *kept)):
            kept.append(table)
    return kept


def _of_runs(lines: list[Line], rules: list[Rule], marks: Marks) -> list[Found]:
    tables: list[Found] = []
    done = 0
    for start, end in runs(lines, marks.em):
        gaps = gaps_of(lines[start:end], [], marks.em)
        first = max(done, header_start(lines, start, gaps, marks.em)) if gaps else start
        table = _of_lines(lines[first:end], rules, marks, False)
        if table is not None:
            tables.append(table)
            done = end
    return tables


def _of_lines(lines: list[Line], rules: list[Rule], marks: Marks, is_bounded: bool) -> Found | None:
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    y0, y1 = lines[0].y0, lines[-1].y1
    near = [rule for rule in rules if y0 <= rule.at <= y1 and rule.start < x1 and rule.end > x0]
    uprights = [
        rule.at for rule in marks.down if x0 < rule.at < x1 and min(rule.end, y1) - max(rule.start, y0) > (y1 - y0) / 2
    ]
    if uprights:
        lines = [cut_at_gaps(line, uprights) for line in lines]
    gaps = gaps_of(lines, uprights, marks.em)
    if not gaps or is_drawing(lines, marks) or not is_table(lines, gaps, is_bounded, marks.em):
        return None
    return Found(TableKind.ALIGNED, lay_out(lines, near, gaps, marks.em))


def _inside(rule: Rule, box: Extent) -> bool:
    return box[1] - 1 <= rule.at <= box[3] + 1 and rule.start < box[2] and rule.end > box[0]


def _told(table: Found, number: int, spans: Sequence[Span], size: tuple[float, float]) -> Table:
    laid = table.laid
    rows, columns = len(laid.ys) - 1, len(laid.xs) - 1
    taken = {
        (row, column)
        for piece in laid.pieces
        for row in range(piece.top, piece.bottom + 1)
        for column in range(piece.first, piece.last + 1)
    }
    empty = [
        Piece(row, row, column, column)
        for row in range(rows)
        for column in range(columns)
        if (row, column) not in taken
    ]
    pieces = sorted([*laid.pieces, *empty], key=lambda piece: (piece.top, piece.first))
    return Table(
        id=f"t{number}",
        box=_share(table.box, size),
        rows=rows,
        columns=columns,
        cells=[_cell(piece, laid, spans, size) for piece in pieces],
        kind=table.kind,
        header_rows=laid.header,
    )


def _cell(piece: Piece, laid: Laid, spans: Sequence[Span], size: tuple[float, float]) -> Cell:
    box = (laid.xs[piece.first], laid.ys[piece.top], laid.xs[piece.last + 1], laid.ys[piece.bottom + 1])
    chunks = piece.chunks
    return Cell(
        row=piece.top,
        column=piece.first,
        text=joined(spans[word.at].text.strip() for chunk in chunks for word in chunk.words),
        box=_share(box, size),
        row_span=piece.bottom - piece.top + 1,
        column_span=piece.last - piece.first + 1,
        spans=[spans[word.at].id for chunk in chunks for word in chunk.words],
    )


def _share(box: Extent, size: tuple[float, float]) -> Box:
    width, height = size
    return Box(box[0] / width, box[1] / height, box[2] / width, box[3] / height)
