"""`middle_json` of 4.x: pages of typed blocks, boxes as shares of the page already. It tells no page sizes."""

from typing import Any

import msgspec

from penstock.extraction.providers.mineru.pieces import Found, Piece, PieceKind, Sheet, checked_page, share
from penstock.extraction.providers.mineru.refusals import not_understood

_FURNITURE = frozenset({"header", "footer", "page_number", "aside_text", "page_footnote"})
_TITLES = frozenset({"doc_title", "paragraph_title"})
_PICTURES = frozenset({"image", "chart"})
_DEEPEST = 12


class _Block(msgspec.Struct):
    type: str
    bbox: list[float] | None = None
    content: Any = None  # text, runs of text, or blocks, by type
    level: int = 0
    image_path: str | None = None


class _Page(msgspec.Struct):
    page_idx: int
    blocks: list[_Block] = []


class _Document(msgspec.Struct):
    pages: list[_Page]


_decoder = msgspec.json.Decoder(_Document)


def read_middle(data: bytes) -> Found:
    try:
        document = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise not_understood("MIDDLE_MALFORMED") from None
    found = Found([], {})
    for page in document.pages:
        found.sheets[checked_page(page.page_idx)] = Sheet()
        found.pieces += [_piece(block, page.page_idx) for block in page.blocks]
    return found


def _piece(block: _Block, page: int) -> Piece:
    piece = Piece(PieceKind.TEXT, page, share(block.bbox, 1.0, 1.0), image=block.image_path or "")
    if block.type in {"table", "code"} or block.type in _PICTURES:
        _fill_from_children(piece, block)
    elif block.type in {"list", "index"}:
        piece.kind, piece.items = PieceKind.LIST, _leaves(block.content)
    else:
        piece.text = _text(block.content)
        if block.type in _TITLES:
            piece.kind, piece.level = PieceKind.HEADING, block.level or 1
        elif block.type in _FURNITURE:
            piece.kind = PieceKind.FURNITURE
    return piece


def _fill_from_children(piece: Piece, block: _Block) -> None:
    for child in block.content if isinstance(block.content, list) else []:
        kind = str(child.get("type")) if isinstance(child, dict) else ""
        if kind.endswith("_caption"):
            piece.captions.append(_text(child.get("content")))
        elif kind.endswith("_footnote"):
            piece.footnotes.append(_text(child.get("content")))
        elif kind.endswith("_body"):
            piece.text = _text(child.get("content"))
            piece.image = _path(child.get("image_path"))
    if block.type == "table":
        piece.kind, piece.markup, piece.text = PieceKind.TABLE, piece.text, ""
    elif block.type in _PICTURES:
        piece.kind = PieceKind.IMAGE


def _leaves(content: Any, depth: int = 0) -> list[str]:
    """The texts of a list, whose entries may be lists."""
    if not isinstance(content, list) or depth > _DEEPEST:
        return []
    texts: list[str] = []
    for child in content:
        if not isinstance(child, dict):
            continue
        if child.get("type") in {"list", "index"}:
            texts += _leaves(child.get("content"), depth + 1)
        else:
            texts.append(_text(child.get("content")))
    return [text for text in texts if text.strip()]


def _text(content: Any, depth: int = 0) -> str:
    """Runs of text one after the other; a link is its words."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or depth > _DEEPEST:
        return ""
    return "".join(_text(run.get("content"), depth + 1) for run in content if isinstance(run, dict))


def _path(value: Any) -> str:
    return value if isinstance(value, str) else ""
