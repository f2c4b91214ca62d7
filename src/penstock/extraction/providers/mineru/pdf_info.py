"""`middle.json` of 2.x and 3.x, which the hosted service calls `layout.json`: pages with their size, boxes in points.

Its lines are finer than the content list's blocks, so they are read wherever it is there; where no content list came,
the blocks are read from here too.
"""

from collections.abc import Iterator

import msgspec

from penstock.extraction.providers.mineru.pieces import Found, Line, Piece, PieceKind, Sheet, checked_page, share
from penstock.extraction.providers.mineru.refusals import not_understood

_FURNITURE = frozenset({"header", "footer", "page_number", "aside_text", "page_footnote", "discarded"})
_PICTURES = frozenset({"image", "chart"})
_LARGEST_PAGE = 100_000.0
_DEEPEST = 8


class _Span(msgspec.Struct):
    bbox: list[float] | None = None
    content: str | None = None
    score: float | None = None
    html: str | None = None
    image_path: str | None = None


class _Line(msgspec.Struct):
    bbox: list[float] | None = None
    spans: list[_Span] = []


class _Block(msgspec.Struct):
    type: str = "text"
    bbox: list[float] | None = None
    lines: list[_Line] = []
    blocks: list["_Block"] = []
    level: int | None = None


class _Page(msgspec.Struct):
    page_idx: int
    page_size: list[float] = []
    para_blocks: list[_Block] | None = None
    discarded_blocks: list[_Block] | None = None


class _Document(msgspec.Struct):
    pdf_info: list[_Page]


_decoder = msgspec.json.Decoder(_Document)


def read_pdf_info(data: bytes) -> Found:
    try:
        document = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise not_understood("MIDDLE_MALFORMED") from None
    found = Found([], {})
    for page in document.pdf_info:
        sheet = found.sheets[checked_page(page.page_idx)] = _sheet(page)
        for block in [*(page.para_blocks or []), *(page.discarded_blocks or [])]:
            found.pieces.append(_piece(block, page.page_idx, sheet))
            sheet.lines += _lines(block, sheet)
    return found


def _sheet(page: _Page) -> Sheet:
    if len(page.page_size) == 2 and all(0 < side < _LARGEST_PAGE for side in page.page_size):
        return Sheet(page.page_size[0], page.page_size[1])
    return Sheet()


def _piece(block: _Block, page: int, sheet: Sheet) -> Piece:
    piece = Piece(PieceKind.TEXT, page, share(block.bbox, sheet.width, sheet.height))
    nested = list(_nested(block))
    if block.type == "table" or block.type in _PICTURES:
        piece.kind = PieceKind.TABLE if block.type == "table" else PieceKind.IMAGE
        spans = [span for part in nested for line in part.lines for span in line.spans]
        piece.markup = next((span.html for span in spans if span.html), "")
        piece.image = next((span.image_path for span in spans if span.image_path), "")
        piece.captions = [_text(part) for part in nested if part.type.endswith("_caption")]
        piece.footnotes = [_text(part) for part in nested if part.type.endswith("_footnote")]
        return piece
    piece.text = "\n".join(filter(None, map(_text, nested)))
    if block.type in {"list", "index"}:
        piece.kind, piece.items = PieceKind.LIST, [_text(part) for part in nested if _text(part)]
    elif block.type in _FURNITURE:
        piece.kind = PieceKind.FURNITURE
    elif block.type == "title":
        piece.kind, piece.level = PieceKind.HEADING, block.level or 1
    return piece


def _nested(block: _Block, depth: int = 0) -> Iterator[_Block]:
    yield block
    if depth < _DEEPEST:
        for inner in block.blocks:
            yield from _nested(inner, depth + 1)


def _text(block: _Block) -> str:
    """Words that a line break parts have a space between them, Chinese has not."""
    text = ""
    for line in block.lines:
        said = "".join(span.content or "" for span in line.spans).strip()
        joint = " " if text and said and text[-1].isascii() and said[0].isascii() else ""
        text += joint + said
    return text


def _lines(block: _Block, sheet: Sheet) -> list[Line]:
    lines = []
    for part in _nested(block):
        for line in part.lines:
            for span in line.spans:
                box = share(span.bbox or line.bbox, sheet.width, sheet.height)
                if box is not None and span.content and span.content.strip() and not span.html:
                    lines.append(Line(span.content.strip(), box, _score(span)))
    return lines


def _score(span: _Span) -> float | None:
    return span.score if span.score is not None and 0 <= span.score <= 1 else None
