"""Pieces become pages of the page model: spans with ids and boxes, tables with cells, pictures with their keys.

A block's text is one span with the block's box, or, where the service tells its lines and they say the same text, one
span for each line. Cells have boxes by equal shares, as no service says more; the page then warns of it.
"""

from collections.abc import Callable, Mapping, Sequence

from penstock.extraction.providers.mineru.pieces import Line, Piece, PieceKind, Sheet
from penstock.extraction.providers.mineru.tables import table_of
from penstock.pdf.pages.model import Block, BlockKind, Box, Image, Origin, Page, Span

_WHOLE = Box(0.0, 0.0, 1.0, 1.0)
_KINDS = {
    PieceKind.TEXT: BlockKind.PARAGRAPH,
    PieceKind.HEADING: BlockKind.HEADING,
    PieceKind.FURNITURE: BlockKind.FURNITURE,
}
_MARGIN = 0.004  # blocks are rounded, so their lines stick out a little
_MOST_LINES = 400


def page_of(number: int, sheet: Sheet, pieces: Sequence[Piece], keys: Mapping[str, str]) -> Page:
    """`keys` has the stored key of each picture by its path in the result."""
    return _Writer(Page(number, sheet.width, sheet.height, ocr_share=0.0), sheet, keys).written(pieces)


class _Writer:
    def __init__(self, page: Page, sheet: Sheet, keys: Mapping[str, str]) -> None:
        self._page, self._sheet, self._keys = page, sheet, keys

    def written(self, pieces: Sequence[Piece]) -> Page:
        if not self._page.width:
            self._warn("page_size_unknown")
        for piece in pieces:
            if piece.box is None:
                self._warn("box_missing")
            box = piece.box or _WHOLE
            if piece.kind is PieceKind.TABLE:
                self._around(piece, box, self._table)
            elif piece.kind is PieceKind.IMAGE:
                self._around(piece, box, self._picture)
            elif piece.kind is PieceKind.LIST:
                for item in piece.items:
                    self._text(BlockKind.LIST_ITEM, item, box)
            else:
                self._around(piece, box, self._plain)
        return self._page

    def _plain(self, piece: Piece, box: Box) -> None:
        if not piece.text.strip() and piece.image:  # a formula that was only photographed
            self._picture(piece, box)
        else:
            self._text(_KINDS[piece.kind], piece.text, box, min(max(piece.level, 0), 6))

    def _table(self, piece: Piece, box: Box) -> None:
        table = table_of(piece.markup, box, f"t{len(self._page.tables) + 1}")
        if table is None:
            self._picture(piece, box)
            return
        for cell in table.cells:
            if cell.text:
                cell.spans = [self._span(cell.text, cell.box, None)]
        self._warn("cell_boxes_estimated")
        self._page.tables.append(table)
        self._page.blocks.append(Block(BlockKind.TABLE, box, ref=table.id))

    def _picture(self, piece: Piece, box: Box) -> None:
        key = self._keys.get(piece.image)
        if key is None:
            self._warn("image_missing")
        image = Image(f"i{len(self._page.images) + 1}", box, key=key)
        self._page.images.append(image)
        self._page.blocks.append(Block(BlockKind.IMAGE, box, ref=image.id))
        if piece.text.strip():  # what the service says can be read in it
            self._text(BlockKind.PARAGRAPH, piece.text, box)

    def _around(self, piece: Piece, box: Box, write: Callable[[Piece, Box], None]) -> None:
        for caption in piece.captions:
            self._text(BlockKind.PARAGRAPH, caption, box)
        write(piece, box)
        for footnote in piece.footnotes:
            self._text(BlockKind.PARAGRAPH, footnote, box)

    def _text(self, kind: BlockKind, text: str, box: Box, level: int = 0) -> None:
        if not text.strip():
            return
        text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").strip()
        lines = _lines_of(text, box, self._sheet.lines)
        if lines:
            spans = [self._span(line.text, line.box, line.score) for line in lines]
            around = lines[0].box
            for line in lines[1:]:
                around = around.union(line.box)
        else:
            spans, around = [self._span(text, box, None)], box
        level = level if kind is BlockKind.HEADING else 0
        self._page.blocks.append(Block(kind, around, text, level, spans))

    def _span(self, text: str, box: Box, confidence: float | None) -> str:
        span = Span(f"s{len(self._page.spans) + 1}", text, box, Origin.PROVIDER, confidence)
        self._page.spans.append(span)
        return span.id

    def _warn(self, word: str) -> None:
        if word not in self._page.warnings:
            self._page.warnings.append(word)


def _lines_of(text: str, box: Box, lines: Sequence[Line]) -> list[Line]:
    """The neighbouring lines inside a box that together say the text; none if they say something else."""
    wanted = _bare(text)
    inside = [line for line in lines if _holds(box, line.box)][:_MOST_LINES]
    bare = [_bare(line.text) for line in inside]
    for first in range(len(inside)):
        at = 0
        for last in range(first, len(inside)):
            if not wanted.startswith(bare[last], at):
                break
            at += len(bare[last])
            if at == len(wanted):
                return inside[first : last + 1]
    return []


def _holds(box: Box, inner: Box) -> bool:
    return (
        inner.x0 >= box.x0 - _MARGIN
        and inner.y0 >= box.y0 - _MARGIN
        and inner.x1 <= box.x1 + _MARGIN
        and inner.y1 <= box.y1 + _MARGIN
    )


def _bare(text: str) -> str:
    return "".join(text.split())
