"""Pages with what stands on them: values typed into a form, notes, stamps. Readers show these; PDFium's text does not.

They are drawn into the page in memory, after all else of it, so ids of images stay as they are. Links and closed notes
show nothing and cost nothing, and hidden ones stay hidden. Drawing in very many takes PDFium for ever: a page that has
more than it may is left as it is, and says so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pypdfium2 import raw

from penstock.pdf.opening import opened_page

_MOST = 2_000
_UNSEEN = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)


@contextmanager
def opened_as_shown(document: Any, index: int) -> Iterator[Any]:
    """The raw handle of a page, its annotations part of it; None where PDFium finds no page."""
    with opened_page(document, index) as page:
        if page is None or has_too_many(page) or not _shows_some(page):
            yield page
            return
        _draw_into(page)
    with opened_page(document, index) as page:
        yield page


def has_too_many(page: Any) -> bool:
    return bool(raw.FPDFPage_GetAnnotCount(page) > _MOST)


def _shows_some(page: Any) -> bool:
    return any(_kind(page, index) not in _UNSEEN for index in range(raw.FPDFPage_GetAnnotCount(page)))


def _kind(page: Any, index: int) -> int:
    annotation = raw.FPDFPage_GetAnnot(page, index)
    if not annotation:
        return int(raw.FPDF_ANNOT_POPUP)
    try:
        return int(raw.FPDFAnnot_GetSubtype(annotation))
    finally:
        raw.FPDFPage_CloseAnnot(annotation)


def _draw_into(page: Any) -> None:
    bitmap = raw.FPDFBitmap_CreateEx(1, 1, raw.FPDFBitmap_Gray, None, 0)
    if bitmap:  # values that no program has drawn yet get their looks when the page is drawn
        raw.FPDF_RenderPageBitmap(bitmap, page, 0, 0, 1, 1, 0, raw.FPDF_ANNOT)
        raw.FPDFBitmap_Destroy(bitmap)
    raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
