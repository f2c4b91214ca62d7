"""The first look at a PDF, in the sandbox: what speaks against it, and if nothing does, how many pages can be read.

Invariant: PDFium opens nothing that the inspection has found fault with.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import BinaryIO

from pypdfium2 import raw

from penstock.pdf.findings import Inspection
from penstock.pdf.inspect import inspect
from penstock.pdf.opening import CannotOpen, opened_document


def look_into(file: BinaryIO, bounds: Mapping[str, int]) -> Inspection:
    found = inspect(file, bounds)
    if not found.ok:
        return found
    try:
        return replace(found, readable_pages=count_pages(file))
    except CannotOpen:  # whoever reads it next says so
        return found


def count_pages(file: BinaryIO) -> int:
    with opened_document(file) as document:
        return int(raw.FPDF_GetPageCount(document))
