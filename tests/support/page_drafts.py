"""Small pages for tests: lines of text and tables, as if they had been read."""

from collections.abc import Iterator, Sequence

from penstock.pdf.pages.model import Block, BlockKind, Box, Cell, Page, Span, Table

_LINE = 0.02


class PageDraft:
    """Filled from the top: `line` and `heading` make blocks, `table` a table with all its spans."""

    def __init__(self, number: int = 1) -> None:
        self.page = Page(number, 595, 842)
        self._y = 0.05

    def line(self, *texts: str, kind: BlockKind = BlockKind.PARAGRAPH) -> "PageDraft":
        """Texts beside each other, one span each."""
        names = [self._span(text, 0.05 + 0.3 * index, self._y) for index, text in enumerate(texts)]
        box = Box(0.05, self._y, 0.95, self._y + _LINE)
        self.page.blocks.append(Block(kind, box, " ".join(texts), 2 if kind is BlockKind.HEADING else 0, names))
        self._y += 1.5 * _LINE
        return self

    def heading(self, text: str) -> "PageDraft":
        return self.line(text, kind=BlockKind.HEADING)

    def table(self, rows: Sequence[Sequence[str]], header_rows: int = 1) -> "PageDraft":
        columns = max(map(len, rows))
        top, cells, width = self._y, [], 0.9 / columns
        for row, texts in enumerate(rows):
            for column, text in enumerate(texts):
                x = 0.05 + width * column
                spans = [self._span(text, x, self._y, width * 0.9)] if text else []
                box = Box(x, self._y, x + width, self._y + _LINE)
                cells.append(Cell(row, column, text, box, spans=spans))
            self._y += _LINE
        name = f"t{len(self.page.tables) + 1}"
        box = Box(0.05, top, 0.95, self._y)
        self.page.tables.append(Table(name, box, len(rows), columns, cells, header_rows=header_rows))
        self.page.blocks.append(Block(BlockKind.TABLE, box, ref=name))
        self._y += _LINE
        return self

    def _span(self, text: str, x: float, y: float, width: float = 0.25) -> str:
        name = f"s{len(self.page.spans) + 1}"
        self.page.spans.append(Span(name, text, Box(x, y, x + width, y + _LINE * 0.8)))
        return name


def each(*drafts: PageDraft) -> Iterator[Page]:
    for draft in drafts:
        yield draft.page
