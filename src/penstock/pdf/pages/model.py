"""What a page says, and where. The same for a text layer, a scan, a photo, and what another reader found.

Every piece of text is a span with an id and a box, and whatever is made of spans (blocks, cells) names them, so each
value can be shown on its page. Boxes are shares of the page as it is displayed (after its rotation), from the top
left corner: 0 to 1, x to the right, y down. Ids are unique within a page and stable for the same bytes.
None of them refers back to what holds it, so the collector of circles need not look (`gc=False`): there are many.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec


class Box(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """A rectangle on a page. Encoded as [x0, y0, x1, y1]."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    def union(self, other: "Box") -> "Box":
        return Box(min(self.x0, other.x0), min(self.y0, other.y0), max(self.x1, other.x1), max(self.y1, other.y1))


class Ruling(NamedTuple):
    """A straight line that is drawn on a page, along an edge of the page; x0 = x1 or y0 = y1."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def is_upright(self) -> bool:
        return self.x0 == self.x1


class Origin(StrEnum):
    """How a piece of text was come by."""

    TEXT = "text"  # written in the file
    OCR = "ocr"  # recognised in a picture of the page
    PROVIDER = "provider"  # told by another service


class Span(msgspec.Struct, gc=False, omit_defaults=True):
    """A run of text in one line and one style: about a word group, never across a column gap."""

    id: str  # "s1", "s2" … in reading order of their lines
    text: str
    box: Box
    origin: Origin = Origin.TEXT
    confidence: float | None = None  # of recognised text, from the recogniser
    size: float = 0.0  # height of the letters in points
    is_bold: bool = False


class Cell(msgspec.Struct, gc=False, omit_defaults=True):
    """One cell; merged cells span several rows or columns. Rows and columns count from 0."""

    row: int
    column: int
    text: str
    box: Box
    row_span: int = 1
    column_span: int = 1
    spans: list[str] = []


class TableKind(StrEnum):
    """How a table was found."""

    RULED = "ruled"  # by its lines
    ALIGNED = "aligned"  # by how its words stand
    PROVIDER = "provider"  # told by another service


class Table(msgspec.Struct, gc=False, omit_defaults=True):
    """A grid of cells, in rows from the top. Covered positions of merged cells have no cell of their own."""

    id: str  # "t1" …
    box: Box
    rows: int
    columns: int
    cells: list[Cell]
    kind: TableKind = TableKind.RULED
    header_rows: int = 0
    confidence: float | None = None


class Image(msgspec.Struct, gc=False, omit_defaults=True):
    """A picture on the page, where it is placed. `key` is set once its bytes are stored."""

    id: str  # "i1" …
    box: Box
    pixel_width: int = 0
    pixel_height: int = 0
    is_inline: bool = False
    is_mask: bool = False
    key: str | None = None


class BlockKind(StrEnum):
    """What a block is to a reader."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"
    IMAGE = "image"
    FURNITURE = "furniture"  # running heads, page numbers: kept, not part of the text


class Block(msgspec.Struct, gc=False, omit_defaults=True):
    """A part of the page in reading order. Text blocks name spans; a table or an image names itself in `ref`."""

    kind: BlockKind
    box: Box
    text: str = ""
    level: int = 0  # of a heading, 1 to 6
    spans: list[str] = []
    ref: str | None = None


class Page(msgspec.Struct, gc=False, omit_defaults=True):
    """One page. `blocks` are all of it in reading order."""

    number: int  # from 1
    width: float  # points, as displayed; units of the page where it has others (/UserUnit), which PDFium does not tell
    height: float
    rotation: int = 0  # degrees by which the page is turned for display
    spans: list[Span] = []
    tables: list[Table] = []
    images: list[Image] = []
    blocks: list[Block] = []
    ocr_share: float = 0.0  # share of the letters that were recognised, not read
    warnings: list[str] = []  # "garbled_text_layer", "low_confidence", "unreadable" …
