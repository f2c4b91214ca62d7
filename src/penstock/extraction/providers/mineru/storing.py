"""A result goes into the notebook: pictures, then pages; what comes back is its markdown with links that work.

Only pictures that the text or a page names are stored, and only what their first bytes say is a picture. A page that
the service left out becomes an empty one that says so: no page is missing without a word.
"""

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from penstock.extraction.ports import Notebook
from penstock.extraction.providers.mineru.content_list import read_content_list
from penstock.extraction.providers.mineru.family import Part
from penstock.extraction.providers.mineru.middle import read_middle
from penstock.extraction.providers.mineru.pages import page_of
from penstock.extraction.providers.mineru.parcel import Parcel
from penstock.extraction.providers.mineru.pdf_info import read_pdf_info
from penstock.extraction.providers.mineru.pieces import Found, Piece, Sheet
from penstock.extraction.providers.mineru.refusals import not_understood
from penstock.kernel import failpoints
from penstock.pdf.pages.model import Page

_LINK = re.compile(r"(!\[[^\[\]\n]{0,2000}\]\(\s{0,3}|<img\b[^<>]{0,500}?\bsrc=[\"'])([^)\s\"'<>]{1,1000})")
_MAGIC = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
)


@dataclass(frozen=True, slots=True)
class Stored:
    markdown: str | None
    pages: int
    missing: list[int]  # numbers of pages that the service said nothing of


class _Which(msgspec.Struct):
    pdf_info: msgspec.Raw = msgspec.Raw()
    pages: msgspec.Raw = msgspec.Raw()


async def store_result(parcel: Parcel, part: Part, pages: int, notebook: Notebook) -> Stored:
    """`pages` is how many the document has, 0 if that is not known. ZipDamaged; OCR_ANSWER_INVALID."""
    found = await asyncio.to_thread(_found_in, parcel)
    markdown = await asyncio.to_thread(_markdown_in, parcel)
    _renumber(found, part)
    names = {piece.image for piece in found.pieces if piece.image} | await asyncio.to_thread(_linked, markdown)
    keys = await _store_images(parcel, sorted(names), notebook)
    missing = await _store_pages(found, _numbers(found, part, pages), keys, notebook)
    return Stored(None if markdown is None else _relinked(markdown, keys), len(found.sheets), missing)


def _found_in(parcel: Parcel) -> Found:
    """The content list is the documented form; what tells of lines and sizes goes with it."""
    content, middle = parcel.content_list(), parcel.middle()
    layout = None if middle is None else _laid_out(middle)
    if content is not None:
        pieces = read_content_list(content)
        found = Found(pieces, {} if layout is None else layout.sheets)
    elif layout is not None:
        found = layout
    else:
        raise not_understood("RESULT_WITHOUT_PAGES")
    for piece in found.pieces:
        found.sheets.setdefault(piece.page, Sheet())
    if not found.sheets:
        raise not_understood("RESULT_WITHOUT_PAGES")
    return found


def _laid_out(middle: bytes) -> Found:
    try:
        which = msgspec.json.decode(middle, type=_Which)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise not_understood("MIDDLE_MALFORMED") from None
    if bytes(which.pdf_info):
        return read_pdf_info(middle)
    if bytes(which.pages):
        return read_middle(middle)
    raise not_understood("MIDDLE_MALFORMED")


def _renumber(found: Found, part: Part) -> None:
    """Page numbers of the document, from 1. Some services count a part from its own beginning, some do not."""
    is_counted_anew = not part.is_whole and min(found.sheets) < part.first - 1
    offset = part.first if is_counted_anew else 1
    for piece in found.pieces:
        piece.page += offset
    found.sheets = {index + offset: sheet for index, sheet in found.sheets.items()}
    if not part.is_whole and not part.first <= min(found.sheets) <= max(found.sheets) <= part.last:
        raise not_understood("PAGES_OUTSIDE_PART", part=part.label)


def _numbers(found: Found, part: Part, pages: int) -> Iterable[int]:
    if not part.is_whole:
        return range(part.first, part.last + 1)
    if pages and max(found.sheets) > pages:
        raise not_understood("PAGES_OUTSIDE_DOCUMENT", pages=pages)
    return range(1, (pages or max(found.sheets)) + 1)


async def _store_pages(found: Found, numbers: Iterable[int], keys: Mapping[str, str], notebook: Notebook) -> list[int]:
    by_page: dict[int, list[Piece]] = defaultdict(list)
    for piece in found.pieces:
        by_page[piece.page].append(piece)
    done, missing = await notebook.pages_done(), []
    for number in numbers:
        sheet = found.sheets.get(number)
        if sheet is None:
            missing.append(number)
        if number in done:
            continue
        if sheet is None:
            page = Page(number, 0.0, 0.0, warnings=["missing_from_result"])
        else:
            page = await asyncio.to_thread(page_of, number, sheet, by_page[number], keys)
        await notebook.add_page(page)
        failpoints.reach("mineru.page_stored")
    return missing


async def _store_images(parcel: Parcel, names: Iterable[str], notebook: Notebook) -> dict[str, str]:
    keys: dict[str, str] = {}
    stored: dict[str, str] = {}  # by content: services repeat pictures under several names
    for name in names:
        picture = await asyncio.to_thread(_picture, parcel, name)
        if picture is None:
            continue
        own_name, data = picture
        if own_name not in stored:
            stored[own_name] = await notebook.add_image(own_name, data)
        keys[name] = stored[own_name]
    return keys


def _picture(parcel: Parcel, name: str) -> tuple[str, bytes] | None:
    """Named by its content."""
    data = parcel.image(name)
    suffix = None if data is None else _suffix(data)
    if data is None or suffix is None:
        return None
    return f"{hashlib.sha256(data).hexdigest()[:40]}.{suffix}", data


def _suffix(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((suffix for magic, suffix in _MAGIC if data.startswith(magic)), None)


def _markdown_in(parcel: Parcel) -> str | None:
    data = parcel.markdown()
    return None if data is None else data.decode("utf-8", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _linked(markdown: str | None) -> set[str]:
    found = (link[2] for link in _LINK.finditer(markdown or ""))
    return {name for name in found if "://" not in name and not name.startswith(("data:", "/"))}


def _relinked(markdown: str, keys: Mapping[str, str]) -> str:
    return _LINK.sub(lambda link: link[1] + keys.get(link[2], link[2]), markdown)
