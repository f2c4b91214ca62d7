"""Pages as a reader of documents would hand them over: text set in lines, in points from the top left."""

from penstock.pdf.pages.layout import arrange
from penstock.pdf.pages.model import Block, BlockKind, Box, Cell, Image, Origin, Page, Span, Table

WIDTH, HEIGHT = 600.0, 800.0


class Sheet:
    """A page in the making."""

    def __init__(self, number: int = 1) -> None:
        self.page = Page(number, WIDTH, HEIGHT, spans=[], tables=[], images=[], blocks=[])

    def text(self, x: float, y: float, words: str, size: float = 10, **more: object) -> Span:
        """One span; letters are half as wide as high, Chinese ones as wide."""
        width = more.pop("width", None) or sum(size if letter >= "\u2e80" else size / 2 for letter in words)
        span = Span(f"s{len(self.page.spans) + 1}", words, box(x, y, x + width, y + size), size=size, **more)  # type: ignore[arg-type]
        self.page.spans.append(span)
        return span

    def lines(self, x: float, y: float, lines: list[str], size: float = 10, leading: float = 1.3) -> float:
        """Lines below each other; returns where the next would stand."""
        for line in lines:
            self.text(x, y, line, size)
            y += size * leading
        return y

    def image(self, x0: float, y0: float, x1: float, y1: float) -> Image:
        image = Image(f"i{len(self.page.images) + 1}", box(x0, y0, x1, y1))
        self.page.images.append(image)
        return image

    def table(self, x: float, y: float, rows: list[list[str]], **more: object) -> Table:
        """Cells of 80 by 14 points, each with its span."""
        cells = []
        for row, texts in enumerate(rows):
            for column, text in enumerate(texts):
                left, top = x + 80 * column, y + 14 * row
                spans = [self.text(left + 2, top + 2, text).id] if text else []
                cells.append(Cell(row, column, text, box(left, top, left + 80, top + 14), spans=spans))
        size = box(x, y, x + 80 * len(rows[0]), y + 14 * len(rows))
        table = Table(f"t{len(self.page.tables) + 1}", size, len(rows), len(rows[0]), cells, **more)  # type: ignore[arg-type]
        self.page.tables.append(table)
        return table

    def blocks(self) -> list[Block]:
        arrange(self.page)
        return self.page.blocks

    def told(self) -> list[tuple[BlockKind, str]]:
        return [(block.kind, block.text or block.ref or "") for block in self.blocks()]

    def texts(self) -> list[str]:
        return [text for _, text in self.told()]


def box(x0: float, y0: float, x1: float, y1: float) -> Box:
    return Box(x0 / WIDTH, y0 / HEIGHT, x1 / WIDTH, y1 / HEIGHT)


__all__ = ["HEIGHT", "WIDTH", "Origin", "Sheet", "box"]
