"""`content_list.json` of the hosted service, 2.x and 3.x: one flat list, boxes from 0 to 1000."""

import msgspec

from penstock.extraction.providers.mineru.pieces import Piece, PieceKind, checked_page, share
from penstock.extraction.providers.mineru.refusals import not_understood

_UNIT = 1000.0
_FURNITURE = frozenset({"header", "footer", "page_number", "aside_text", "page_footnote", "discarded"})
_PICTURES = frozenset({"image", "chart"})
Texts = list[str] | str | None


class _Item(msgspec.Struct):
    type: str = "text"
    page_idx: int = 0
    bbox: list[float] | None = None
    text: str | None = None
    text_level: int | None = None
    img_path: str | None = None
    list_items: list[str] | None = None
    content: str | None = None
    table_body: str | None = None
    table_caption: Texts = None
    table_footnote: Texts = None
    image_caption: Texts = None
    image_footnote: Texts = None
    chart_caption: Texts = None
    chart_footnote: Texts = None
    code_body: str | None = None
    code_caption: Texts = None
    code_footnote: Texts = None


_decoder = msgspec.json.Decoder(list[_Item])


def read_content_list(data: bytes) -> list[Piece]:
    try:
        items = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise not_understood("CONTENT_LIST_MALFORMED") from None
    return [_piece(item) for item in items]


def _piece(item: _Item) -> Piece:
    piece = Piece(PieceKind.TEXT, checked_page(item.page_idx), share(item.bbox, _UNIT, _UNIT), item.text or "")
    piece.image = item.img_path or ""
    if item.type == "table":
        piece.kind, piece.markup = PieceKind.TABLE, item.table_body or ""
        piece.captions, piece.footnotes = _texts(item.table_caption), _texts(item.table_footnote)
    elif item.type in _PICTURES:
        piece.kind, piece.text = PieceKind.IMAGE, item.content or ""
        piece.captions = _texts(item.image_caption) + _texts(item.chart_caption)
        piece.footnotes = _texts(item.image_footnote) + _texts(item.chart_footnote)
    elif item.type == "code":
        piece.text = item.code_body or ""
        piece.captions, piece.footnotes = _texts(item.code_caption), _texts(item.code_footnote)
    elif item.type == "list":
        piece.kind, piece.items = PieceKind.LIST, item.list_items or _texts(item.text)
    elif item.type in _FURNITURE:
        piece.kind = PieceKind.FURNITURE
    elif item.text_level:
        piece.kind, piece.level = PieceKind.HEADING, item.text_level
    return piece


def _texts(value: Texts) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [text for text in value or [] if text.strip()]
