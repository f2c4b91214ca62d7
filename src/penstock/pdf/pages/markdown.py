"""Pages as markdown: for people to read, for a model to work on, for chunks to be cut from.

Each page begins with `<!-- page 3 -->`. Tables are GFM pipe tables, merged cells too (their text stands in the first of
their places, the others are empty): one row is one line, so a table can be cut between any two rows and each row still
has its columns; HTML with spans cannot. Furniture is left out. Nothing here holds more than one page.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from urllib.parse import quote

from penstock.pdf.pages import marks
from penstock.pdf.pages.escaping import block_text, cell_text, heading_text, running_text
from penstock.pdf.pages.furniture import RunningHeads
from penstock.pdf.pages.layout import pictures_in_cells
from penstock.pdf.pages.model import Block, BlockKind, Cell, Image, Page, Table

_SMALLEST = 0.012  # of the page's width or height: smaller pictures are rules and ornaments


def page_mark(number: int) -> str:
    return f"<!-- page {number} -->"


def document_markdown(pages: Iterable[Page], heads: RunningHeads | None = None) -> str:
    return "".join(markdown_pieces(pages, heads))


def markdown_pieces(pages: Iterable[Page], heads: RunningHeads | None = None) -> Iterator[str]:
    """A piece for each page; together they are the document."""
    for page in pages:
        yield _piece(page, heads)


async def stream_markdown(pages: AsyncIterable[Page], heads: RunningHeads | None = None) -> AsyncIterator[str]:
    """The same, for pages that are fetched one at a time."""
    async for page in pages:
        yield _piece(page, heads)


def _piece(page: Page, heads: RunningHeads | None) -> str:
    if heads:
        heads.mark(page)
    text = page_markdown(page)
    return f"{page_mark(page.number)}\n\n{text}\n\n" if text else f"{page_mark(page.number)}\n\n"


def page_markdown(page: Page) -> str:
    """The page's blocks, without its mark."""
    sheet = _Sheet(page)
    out: list[str] = []
    before: Block | None = None
    for block in page.blocks:
        text = sheet.written(block)
        if text:
            is_list = before is not None and before.kind is block.kind is BlockKind.LIST_ITEM
            out.append(("\n" if is_list else "\n\n") + text)
            before = block
    return "".join(out).strip("\n")


class _Sheet:
    """A page while it is written."""

    def __init__(self, page: Page) -> None:
        self._tables = {table.id: table for table in page.tables}
        self._images = {image.id: image for image in page.images}
        self._in_cells: dict[tuple[str, int], list[Image]] = {}
        for id_, place in pictures_in_cells(page).items():
            self._in_cells.setdefault(place, []).append(self._images[id_])

    def written(self, block: Block) -> str:
        if block.kind is BlockKind.TABLE and block.ref in self._tables:
            return self._table(self._tables[block.ref])
        if block.kind is BlockKind.IMAGE and block.ref in self._images:
            return _picture(self._images[block.ref])
        if block.kind is BlockKind.FURNITURE or not block.text.strip():
            return ""
        if block.kind is BlockKind.HEADING:
            return f"{'#' * min(max(block.level, 1), 6)} {heading_text(block.text)}"
        return _list_item(block.text) if block.kind is BlockKind.LIST_ITEM else block_text(block.text)

    def _table(self, table: Table) -> str:
        rows = [[""] * table.columns for _ in range(table.rows)]
        for at, cell in enumerate(table.cells):
            if cell.row < table.rows and cell.column < table.columns:
                pictures = [_picture(image) for image in self._in_cells.get((table.id, at), [])]
                parts = [cell_text(cell.text), *(picture.replace("|", "%7C") for picture in pictures)]
                text = "<br>".join(part for part in parts if part)
                held = rows[cell.row][cell.column]
                rows[cell.row][cell.column] = f"{held}<br>{text}" if held and text else held or text
        if not rows or not table.columns:
            return ""
        head, first = _head(table, rows)
        return "\n".join([_row(head), _row(["---"] * table.columns), *map(_row, rows[first:])])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(table: Table, rows: list[list[str]]) -> tuple[list[str], int]:
    """The one row that a pipe table may have as its head, and the first row after it."""
    if table.header_rows > 1:
        return _folded(table, rows), min(table.header_rows, table.rows)
    if table.header_rows == 1 or (table.rows > 1 and _names_columns(rows[0], rows[1])):
        return rows[0], 1
    return [""] * table.columns, 0


def _names_columns(row: list[str], following: list[str]) -> bool:
    """Whether a first row that nothing is known of reads like a head: words throughout, no figures."""
    worded = all(cell and not any(map(str.isdigit, cell)) and "![" not in cell for cell in row)
    return worded and any(any(map(str.isdigit, cell)) or not cell for cell in following)


def _folded(table: Table, rows: list[list[str]]) -> list[str]:
    """Several head rows in one: each column says what stands above it, from the top."""
    head: list[list[str]] = [[] for _ in range(table.columns)]
    for cell in sorted(table.cells, key=lambda cell: (cell.row, cell.column)):
        if cell.row < min(table.header_rows, table.rows) and cell.column < table.columns:
            text = rows[cell.row][cell.column]
            for column in _columns_of(cell, table):
                if text and text not in head[column]:
                    head[column].append(text)
    return [" / ".join(texts) for texts in head]


def _columns_of(cell: Cell, table: Table) -> range:
    """A head over the whole table is a title: it is said once."""
    is_title = cell.column == 0 and cell.column_span >= table.columns
    return range(cell.column, cell.column + 1 if is_title else min(cell.column + cell.column_span, table.columns))


def _list_item(text: str) -> str:
    """Bullets become `-`; a number that markdown knows stays; any other mark is kept as text."""
    bullet = marks.bullet(text)
    if bullet:
        return f"- {running_text(text[bullet.end() :])}"
    number = marks.markdown_number(text)
    return f"{number[1]} {running_text(text[number.end() :])}" if number else f"- {running_text(text)}"


def _picture(image: Image) -> str:
    if image.box.width < _SMALLEST or image.box.height < _SMALLEST:
        return ""
    return f"![{image.id}]({quote(image.key or image.id, safe='/:._-~=@+,')})"
