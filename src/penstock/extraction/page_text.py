"""A page as runs of text that can be searched: cells and blocks, each letter knowing the span that it came from.

A run's letters are folded (no width, case or blanks), so that a value is found however it was set; where words began
and ended is remembered, so that `12` is not found in `A123`.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

from penstock.extraction.ports import Place
from penstock.extraction.spelling import fold
from penstock.pdf.pages.model import Block, BlockKind, Box, Cell, Page, Span

Row = tuple[int, str, int]  # page, table or "", row or line: what stands beside each other


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a run with a place of its own."""

    text: str
    box: Box
    span: str | None
    line: int  # of the page


@dataclass(slots=True)
class Run:
    """Text that belongs together: a cell, a block."""

    page: int
    pieces: list[Piece]
    table: str = ""
    row: int = -1
    folded: str = ""
    owners: list[int] = field(default_factory=list)  # of each folded letter: its piece
    borders: set[int] = field(default_factory=set)  # where a word begins

    def __post_init__(self) -> None:
        parts, length = [], 0
        for index, piece in enumerate(self.pieces):
            for word in unicodedata.normalize("NFKC", piece.text).casefold().split():
                self.borders.add(length)
                parts.append(word)
                self.owners += [index] * len(word)
                length += len(word)
        self.folded = "".join(parts)
        self.borders.add(length)

    @property
    def text(self) -> str:
        return " ".join(piece.text for piece in self.pieces)

    def is_word(self, start: int, end: int) -> bool:
        """These folded letters are words of their own."""
        return not self._glued(start) and not self._glued(end)

    def _glued(self, at: int) -> bool:
        """Both sides of this border belong to one word or number."""
        if at in self.borders or not 0 < at < len(self.folded):
            return False
        left, right = self.folded[at - 1], self.folded[at]
        if left.isdigit() and right in ".," and at + 1 < len(self.folded):
            return self.folded[at + 1].isdigit()
        if left in ".," and right.isdigit() and at > 1:
            return self.folded[at - 2].isdigit()
        return _is_of_a_word(left) and _is_of_a_word(right)

    def row_of(self, piece: Piece) -> Row:
        return (self.page, self.table, self.row) if self.table else (self.page, "", piece.line)

    def place(self, pieces: Sequence[Piece]) -> Place:
        box = reduce(Box.union, (piece.box for piece in pieces))
        spans = tuple(dict.fromkeys(piece.span for piece in pieces if piece.span))
        return Place(self.page, box, spans, " ".join(piece.text for piece in pieces))


def _is_of_a_word(letter: str) -> bool:
    """Chinese and Japanese write words without a border."""
    return letter.isalnum() and not ("\u2e80" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7a3")


@dataclass(slots=True)
class PageText:
    """All of a page: the cells of its tables, and the blocks beside them."""

    page: Page
    cells: dict[str, list[tuple[Cell, Run]]]
    blocks: list[tuple[Block | None, Run]]
    lines: list[list[Piece]]  # of what is in no table, from the top, each from the left

    @property
    def runs(self) -> Iterator[Run]:
        for cells in self.cells.values():
            yield from (run for _, run in cells)
        yield from (run for _, run in self.blocks)


def page_text(page: Page) -> PageText:
    numbers = _line_numbers(page.spans)
    known = {span.id: Piece(span.text, span.box, span.id, numbers[span.id]) for span in page.spans}
    cells = {table.id: [_cell_run(page, table.id, cell, known) for cell in table.cells] for table in page.tables}
    used = {span for table in page.tables for cell in table.cells for span in cell.spans}
    blocks: list[tuple[Block | None, Run]] = []
    for index, block in enumerate(page.blocks):
        pieces = [known[span] for span in block.spans if span in known and span not in used]
        used.update(block.spans)
        if not pieces and block.text and block.kind is not BlockKind.TABLE:
            pieces = [Piece(block.text, block.box, None, -1 - index)]
        if pieces:
            blocks.append((block, Run(page.number, pieces)))
    rest = [piece for name, piece in known.items() if name not in used]
    if rest:
        blocks.append((None, Run(page.number, rest)))
    return PageText(page, cells, blocks, _lines(blocks))


def _cell_run(page: Page, table: str, cell: Cell, known: dict[str, Piece]) -> tuple[Cell, Run]:
    pieces = [known[span] for span in cell.spans if span in known]
    if not pieces or fold("".join(piece.text for piece in pieces)) != fold(cell.text):
        names = [piece.span for piece in pieces]
        pieces = [Piece(cell.text, cell.box, names[0] if len(names) == 1 else None, 0)]
    return cell, Run(page.number, pieces, table, cell.row)


def _line_numbers(spans: Sequence[Span]) -> dict[str, int]:
    """Spans whose middles are within each other's height stand in one line."""
    numbers: dict[str, int] = {}
    line, bottom = -1, -1.0
    for span in sorted(spans, key=lambda each: (each.box.y0 + each.box.y1, each.box.x0)):
        middle = (span.box.y0 + span.box.y1) / 2
        if middle > bottom:
            line += 1
            bottom = middle + span.box.height / 2
        numbers[span.id] = line
    return numbers


def _lines(blocks: list[tuple[Block | None, Run]]) -> list[list[Piece]]:
    found: dict[int, list[Piece]] = {}
    for block, run in blocks:
        if block is not None and block.kind is BlockKind.FURNITURE and all(piece.span is None for piece in run.pieces):
            continue
        for piece in run.pieces:
            found.setdefault(piece.line, []).append(piece)
    lines = [sorted(line, key=lambda piece: piece.box.x0) for line in found.values()]
    return sorted(lines, key=lambda line: min(piece.box.y0 for piece in line))
