"""Tables as services send them, in HTML: rows and cells, merged ones included.

Reads only what makes a table, with patterns that never back up: half-open tags, nested tables and nonsense give some
table, never an error and never a long wait. Sizes are bounded, whatever a span attribute claims.
"""

import html
import re
from dataclasses import dataclass, field

from penstock.pdf.pages.model import Box, Cell, Table, TableKind

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,15})([^<>]{0,2000})>")
_SPAN = re.compile(r"(rowspan|colspan)\s{0,5}=\s{0,5}[\"']?(\d{1,6})", re.IGNORECASE)
_SPACE = re.compile(r"[^\S\n]+")
_LONGEST = 2_000_000
_MOST_ROWS, _MOST_COLUMNS, _MOST_CELLS = 5_000, 500, 100_000
_BREAKS = frozenset({"br", "p", "div", "li"})


@dataclass(slots=True)
class _Found:
    """A cell as it is written; where it stands is known when its row is laid out."""

    row_span: int
    column_span: int
    is_header: bool
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        lines = (_SPACE.sub(" ", line).strip() for line in html.unescape("".join(self.pieces)).split("\n"))
        return "\n".join(line for line in lines if line)


def table_of(markup: str, box: Box, table_id: str) -> Table | None:
    """None when there is no cell in it."""
    rows = _rows(markup[:_LONGEST])
    cells, columns = _laid_out(rows)
    if not cells:
        return None
    height = min(max(cell.row + cell.row_span for cell in cells), _MOST_ROWS)
    for cell in cells:
        cell.row_span = min(cell.row_span, height - cell.row)
        cell.box = _share_of(box, cell, height, columns)
    return Table(table_id, box, height, columns, cells, TableKind.PROVIDER, _header_rows(rows))


def _rows(markup: str) -> list[list[_Found]]:
    rows: list[list[_Found]] = []
    cell: _Found | None = None
    at = count = 0
    for tag in _TAG.finditer(markup):
        if cell is not None:
            cell.pieces.append(markup[at : tag.start()])
        at = tag.end()
        closing, name = tag[1] == "/", tag[2].lower()
        if name == "tr":
            cell = None
            if not closing and len(rows) < _MOST_ROWS:
                rows.append([])
        elif name in {"td", "th"}:
            cell = None
            if not closing and count < _MOST_CELLS:
                cell, count = _cell(tag[3], name == "th"), count + 1
                if not rows:
                    rows.append([])
                rows[-1].append(cell)
        elif cell is not None and name in _BREAKS:
            cell.pieces.append("\n")
    if cell is not None:
        cell.pieces.append(markup[at:])
    return [row for row in rows if row]


def _cell(attributes: str, is_header: bool) -> _Found:
    spans = {found[1].lower(): int(found[2]) for found in _SPAN.finditer(attributes)}
    return _Found(
        min(max(spans.get("rowspan", 1), 1), _MOST_ROWS), min(max(spans.get("colspan", 1), 1), _MOST_COLUMNS), is_header
    )


def _laid_out(rows: list[list[_Found]]) -> tuple[list[Cell], int]:
    """Each cell takes the first free place of its row; what is merged downwards keeps its columns in later rows."""
    held: dict[int, int] = {}  # column → rows for which a cell above still covers it
    cells: list[Cell] = []
    columns = 0
    for number, row in enumerate(rows):
        column = 0
        placed: dict[int, int] = {}
        for found in row:
            while held.get(column, 0):
                column += 1
            if column >= _MOST_COLUMNS:
                break
            width = _free_width(held, column, min(found.column_span, _MOST_COLUMNS - column))
            cells.append(Cell(number, column, found.text, Box(0, 0, 0, 0), found.row_span, width))
            placed |= dict.fromkeys(range(column, column + width), found.row_span - 1)
            column += width
            columns = max(columns, column)
        held = {at: left - 1 for at, left in held.items() if left > 1} | {
            at: left for at, left in placed.items() if left
        }
    return cells, columns


def _free_width(held: dict[int, int], column: int, wanted: int) -> int:
    width = 1
    while width < wanted and not held.get(column + width, 0):
        width += 1
    return width


def _share_of(box: Box, cell: Cell, rows: int, columns: int) -> Box:
    """Services say where a table is, not where its cells are: rows and columns of equal size are our guess."""
    wide, high = box.width / columns, box.height / rows
    return Box(
        box.x0 + wide * cell.column,
        box.y0 + high * cell.row,
        box.x0 + wide * (cell.column + cell.column_span),
        box.y0 + high * (cell.row + cell.row_span),
    )


def _header_rows(rows: list[list[_Found]]) -> int:
    count = 0
    for row in rows:
        if not all(cell.is_header for cell in row):
            break
        count += 1
    return count
