"""Opens a PDF with PDFium, inside the sandbox, from the descriptor that came with the call.

PDFium segfaults when two threads use it, so nothing here starts one. Handles are closed in the order that it wants.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pypdfium2
from pypdfium2 import raw

_MAPPED_AT_MOST = 64 << 20  # a mapping counts against the memory of the call


class CannotOpen(Exception):
    """PDFium refuses the document."""


@contextmanager
def opened_document(file: BinaryIO) -> Iterator[Any]:
    """The raw handle of the document. Small files are mapped: reading through callbacks is several times slower."""
    size = os.fstat(file.fileno()).st_size
    if not 0 < size <= _MAPPED_AT_MOST:
        try:
            with pypdfium2.PdfDocument(file) as document:
                yield document.raw
        except pypdfium2.PdfiumError as failure:
            raise CannotOpen(str(failure)) from failure
        return
    mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    data = (ctypes.c_ubyte * size).from_buffer(mapped)
    handle = raw.FPDF_LoadMemDocument64(data, size, None)
    try:
        if not handle:
            raise CannotOpen(f"PDFium error {raw.FPDF_GetLastError()}")
        yield handle
    finally:
        if handle:
            raw.FPDF_CloseDocument(handle)
        del data
        mapped.close()


@contextmanager
def opened_page(document: Any, index: int) -> Iterator[Any]:
    """The raw handle of a page, or None where PDFium finds none."""
    page = raw.FPDF_LoadPage(document, index)
    if page and not raw.FPDF_GetPageWidthF(page) * raw.FPDF_GetPageHeightF(page):
        page = _uncropped(document, index, page)
    try:
        yield page or None
    finally:
        if page:
            raw.FPDF_ClosePage(page)


def _uncropped(document: Any, index: int, page: Any) -> Any:
    """A crop box that leaves nothing of the page is a mistake; readers show the whole page then, and so do we."""
    sides = [ctypes.c_float() for _ in range(4)]
    if not raw.FPDFPage_GetMediaBox(page, *sides):
        return page
    raw.FPDFPage_SetCropBox(page, *sides)
    raw.FPDF_ClosePage(page)
    return raw.FPDF_LoadPage(document, index)
