"""Rows of tables as elements of a list: a table belongs to the list whose properties its header names.

A table on a later page that has no header of its own, and as many columns, goes on with the one before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.extraction.coercion import coerced
from penstock.extraction.field_map import LabelIndex, Wanted, words
from penstock.extraction.page_text import Run
from penstock.extraction.ports import Place
from penstock.extraction.processors.labels import sum_rows
from penstock.kernel.step_budget import spend
from penstock.pdf.pages.model import Cell, Table

_HEADER_ROWS = 4  # looked at for a header

Grid = Mapping[tuple[int, int], tuple[Cell, Run]]


@dataclass(slots=True)
class RowList:
    """One list that the schema asks for, as it is found."""

    wanted: Wanted
    rows: list[dict[str, Any]] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    columns: dict[int, int] = field(default_factory=dict)  # of the last table: which property each is, by its place
    width: int = 0
    last_page: int = -1
    _index: LabelIndex = field(init=False)

    def __post_init__(self) -> None:
        self._index = LabelIndex(
            (place, label) for place, wanted in enumerate(self.wanted.columns) for label in wanted.labels
        )

    def take(self, page: int, table: Table, cells: Sequence[tuple[Cell, Run]]) -> bool:
        """True when the table is of this list."""
        grid = _grid(cells)
        header, columns = self._header(table, grid)
        first = header + 1
        if not columns:
            if not self._goes_on(page, table):
                return False
            columns, first = self.columns, 0
        self.columns, self.width, self.last_page = columns, table.columns, page
        sums = sum_rows(cells)
        for row in range(first, table.rows):
            spend(1 + len(columns))
            if row not in sums:
                self._add(row, grid, {column: self.wanted.columns[place] for column, place in columns.items()})
        return True

    def _goes_on(self, page: int, table: Table) -> bool:
        return bool(self.columns) and page == self.last_page + 1 and table.columns == self.width

    def _header(self, table: Table, grid: Grid) -> tuple[int, dict[int, int]]:
        """The first row that names most properties, and which column each of them is."""
        best: tuple[int, dict[int, int]] = (0, {})
        for row in range(min(table.rows, max(_HEADER_ROWS, table.header_rows))):
            columns = self._columns(row, table.columns, grid)
            if len(columns) > len(best[1]):
                best = (row, columns)
        enough = 1 if len(self.wanted.columns) == 1 else 2
        return best if len(best[1]) >= enough else (0, {})

    def _columns(self, row: int, width: int, grid: Grid) -> dict[int, int]:
        scores = []
        for column in range(width):
            spend()
            said = words(grid[row, column][0].text) if (row, column) in grid else ""
            scores += [(-score, column, place) for place, score in self._index.alike(said).items()]
        chosen: dict[int, int] = {}
        taken: set[int] = set()
        for _, column, place in sorted(scores):
            if column not in chosen and place not in taken:
                chosen[column] = place
                taken.add(place)
        return chosen

    def _add(self, row: int, grid: Grid, columns: Mapping[int, Wanted]) -> None:
        cells = {column: grid[row, column] for column in columns if (row, column) in grid}
        texts = {column: cell.text.strip() for column, (cell, _) in cells.items()}
        if not any(texts.values()) or self._is_header_again(texts, columns):
            return
        at, made = f"{self.wanted.pointer}/{len(self.rows)}", {}
        for column, (_, run) in cells.items():
            wanted = columns[column]
            value = coerced(texts[column], wanted.schema)
            if value is not None:
                made[wanted.at[0]] = value
                if run.pieces and texts[column]:
                    self.places[at + wanted.pointer] = run.place(run.pieces)
        if made:
            self.rows.append(made)

    @staticmethod
    def _is_header_again(texts: Mapping[int, str], columns: Mapping[int, Wanted]) -> bool:
        same = [column for column, text in texts.items() if words(text) in columns[column].labels]
        return len(same) * 2 > len(texts)


def _grid(cells: Sequence[tuple[Cell, Run]]) -> Grid:
    """A merged cell stands in each of its rows: what it says holds for all of them."""
    grid: dict[tuple[int, int], tuple[Cell, Run]] = {}
    for cell, run in cells:
        spend(cell.row_span)
        for row in range(cell.row, cell.row + cell.row_span):
            grid[row, cell.column] = (cell, run)
    return grid
