"""Tables with drawn cells: words put into the cells of a lattice, and rows told apart where no ruling does it."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.pdf.pages.tables.aligned import Laid, Piece, header_of
from penstock.pdf.pages.tables.columns import column_gaps, voters
from penstock.pdf.pages.tables.judging import FEWEST_ROWS
from penstock.pdf.pages.tables.lattice import Grid, Rect, grid_of
from penstock.pdf.pages.tables.lines import Line, beside, is_datum, is_figure, joined, lines_of
from penstock.pdf.pages.tables.marks import Levels, Marks, Rule, Word

USED = 0.45  # share of rows (columns) in which a column (row) edge is drawn, on average: less, and it is a drawing
FEWEST_CELLS = 4  # cells with something in them
CROSSED = 0.08  # share of words that stand across a drawn line: more, and the lines are a chart's
MOST_LINES = 8  # lines in one cell that also holds most of the words: a frame around a page, not a table
UNDRAWN = 0.3  # share of text in cells that hold columns of their own: more, and the drawn cells are not all


class Filled(NamedTuple):
    """A cell's rectangle with the lines of text in it."""

    rect: Rect
    lines: list[Line]

    @property
    def chunk_count(self) -> int:
        return sum(len(line.chunks) for line in self.lines)

    @property
    def word_count(self) -> float:
        return sum(line.word_count for line in self.lines)


def words_in(words: Sequence[Word], box: tuple[float, float, float, float]) -> list[Word]:
    x0, y0, x1, y1 = box
    return [word for word in words if x0 <= (word.x0 + word.x1) / 2 <= x1 and y0 <= word.middle <= y1]


def ruled_table(across: list[Rule], down: list[Rule], words: Sequence[Word], marks: Marks) -> Laid | None:
    em = marks.em
    grid = grid_of(across, down, words, em)
    if grid is None or grid.used < USED:
        return None
    words = words_in(words, grid.extent)
    levels, uprights = Levels(across), Levels(down)
    if sum(_is_crossed(word, levels, uprights, em) for word in words) > CROSSED * len(words):
        return None
    cells = fill(grid, words, em)
    if not words or _has_undrawn_columns(cells, em) or _has_axis(cells, marks):
        return None
    if _part_rows(grid, cells, em):
        cells = fill(grid, words, em)
    if _part_columns(grid, cells):
        cells = fill(grid, words, em)
    if not _is_table(grid, cells):
        return None
    pieces = [
        Piece(rect.top, rect.bottom - 1, rect.left, rect.right - 1, [chunk for line in lines for chunk in line.chunks])
        for rect, lines in cells
    ]
    return Laid(grid.xs, grid.ys, pieces, header_of(pieces, grid.rows))


def _is_crossed(word: Word, levels: Levels, uprights: Levels, em: float) -> bool:
    deep, middle = em / 3, word.middle
    for rule in uprights.between(word.x0 + deep, word.x1 - deep):
        if rule.start < middle < rule.end:
            return True
    return any(rule.start < word.x1 and rule.end > word.x0 for rule in levels.near(middle, em / 5))


def _has_axis(cells: Sequence[Filled], marks: Marks) -> bool:
    """Figures one below the other in a cell, each at the height of a ruling: the scale of a chart."""
    levels = Levels(marks.across)
    for cell in cells:
        if len(cell.lines) >= FEWEST_ROWS:
            marked = sum(1 for line in cell.lines if levels.near(line.middle, marks.em / 4))
            if marked >= FEWEST_ROWS and 2 * marked > len(cell.lines):
                return True
    return False


def _is_table(grid: Grid, cells: Sequence[Filled]) -> bool:
    filled = [cell for cell in cells if cell.lines]
    if grid.rows < 2 or grid.columns < 2 or len(filled) < FEWEST_CELLS:
        return False
    if len({cell.rect.left for cell in filled}) < 2 or len({cell.rect.top for cell in filled}) < 2:
        return False
    if all(len(cell.lines) <= MOST_LINES for cell in filled):
        return True
    largest = max(filled, key=lambda cell: cell.word_count)
    return len(largest.lines) <= MOST_LINES or 2 * largest.word_count <= sum(cell.word_count for cell in filled)


def _has_undrawn_columns(cells: Sequence[Filled], em: float) -> bool:
    """Whether much of the text stands in columns that no ruling parts."""
    held = [cell for cell in cells if len(voters(cell.lines)) >= FEWEST_ROWS and column_gaps(cell.lines, em)]
    return sum(cell.chunk_count for cell in held) > UNDRAWN * sum(cell.chunk_count for cell in cells)


def _part_rows(grid: Grid, cells: Sequence[Filled], em: float) -> bool:
    """Row edges where rulings part the columns but not the rows: figures stand above figures in one drawn cell.

    Returns whether there are any.
    """
    before = grid.rows
    bands: list[list[Filled]] = [[] for _ in range(before)]
    for cell in cells:
        if cell.lines and cell.rect.bottom == cell.rect.top + 1:
            bands[cell.rect.top].append(cell)
    for row, band in reversed(list(enumerate(bands))):
        words = [word for cell in band for line in cell.lines for chunk in line.chunks for word in chunk.words]
        if len(words) == len(band):  # a word each: nothing stands above anything
            continue
        lines = beside(lines_of(words, em), em)
        owner = {
            word.at: number
            for number, cell in enumerate(band)
            for line in cell.lines
            for chunk in line.chunks
            for word in chunk.words
        }
        for upper, lower in reversed(_new_rows(lines, owner, len(band))):
            whole = {
                id(cell.rect)
                for cell in band
                if any(line.y0 < upper.y1 - em / 4 and line.y1 > lower.y0 + em / 4 for line in cell.lines)
            }
            grid.insert_row((upper.y1 + lower.y0) / 2, row, whole)
    return grid.rows > before


def _new_rows(lines: Sequence[Line], owner: dict[int, int], cells: int) -> list[tuple[Line, Line]]:
    """Neighbouring lines that are two rows. Where most are, the others (rows with little in them) are too."""
    pairs = list(pairwise(lines))
    new: list[tuple[Line, Line]] = []
    row = _by_cell(lines[0], owner) if lines else {}
    for upper, lower in pairs:
        below = _by_cell(lower, owner)
        if _is_title(upper, lower) if cells == 1 else _is_new_row(row, below, cells):
            new.append((upper, lower))
            row = below
        else:
            row = {**row, **below}
    return pairs if len(new) >= 2 and 3 * len(new) >= 2 * len(pairs) else new


def _is_title(upper: Line, lower: Line) -> bool:
    """A title and the headings below it in one drawn cell."""
    one, other = sorted((len(upper.chunks), len(lower.chunks)))
    return one == 1 and other >= 3


def _is_new_row(row: dict[int, str], below: dict[int, str], cells: int) -> bool:
    """Figures below figures, or, under headings, plain figures below words, in most cells."""
    shared = row.keys() & below.keys()
    figures = [number for number in shared if is_figure(row[number]) and is_figure(below[number])]
    if 2 * len(shared) > cells and len(figures) >= min(2, cells - 1) and 2 * len(figures) >= len(shared):
        return True
    data = [number for number in shared if is_datum(below[number]) and not is_figure(row[number])]
    return len(data) >= 2 and 2 * len(data) > cells


def _by_cell(line: Line, owner: dict[int, int]) -> dict[int, str]:
    """Cells with a part of the line, and that part."""
    texts: dict[int, list[str]] = {}
    for chunk in line.chunks:
        for word in chunk.words:
            texts.setdefault(owner[word.at], []).append(word.text)
    return {number: joined(each) for number, each in texts.items()}


def _part_columns(grid: Grid, cells: Sequence[Filled]) -> bool:
    """A cell over several columns with a piece of text for each is several cells: its walls were left undrawn.

    Returns whether there is any.
    """
    found: list[Rect] = []
    for rect, lines in cells:
        edges = [rect.left, *range(rect.left + 1, rect.right), rect.right]
        if len(lines) == 1 and len(lines[0].chunks) > 1:
            spots = [(chunk.x0, chunk.x1) for chunk in lines[0].chunks]
            inner = [e for e in edges[1:-1] if not any(x0 < grid.xs[e] < x1 for x0, x1 in spots)]
            edges = [rect.left, *inner, rect.right]
        else:
            edges = [rect.left, rect.right]
        found.extend(Rect(rect.top, left, rect.bottom, right) for left, right in pairwise(edges))
    grid.rects = found
    return len(found) > len(cells)


def fill(grid: Grid, words: Sequence[Word], em: float) -> list[Filled]:
    """Each word goes into the cell its middle is in."""
    by_rect: list[list[Word]] = [[] for _ in grid.rects]
    owner = [[0] * grid.columns for _ in range(grid.rows)]
    for number, rect in enumerate(grid.rects):
        for row in range(rect.top, rect.bottom):
            owner[row][rect.left : rect.right] = [number] * (rect.right - rect.left)
    for word in words:
        by_rect[owner[_slot(grid.ys, word.middle)][_slot(grid.xs, (word.x0 + word.x1) / 2)]].append(word)
    return [Filled(rect, lines_of(each, em) if each else []) for rect, each in zip(grid.rects, by_rect, strict=True)]


def _slot(edges: list[float], value: float) -> int:
    """Between which edges a value is; on an edge it belongs to what is before."""
    return max(0, min(bisect_left(edges, value) - 1, len(edges) - 2))
