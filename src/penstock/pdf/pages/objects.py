"""The objects of a page that are not text, forms opened, each with the matrix that takes it to the page.

Bounded: a page of more objects than that is looked at only so far, and says so.
"""

import ctypes
from dataclasses import dataclass, field
from typing import Any

from pypdfium2 import raw

from penstock.pdf.matrices import IDENTITY, Matrix, matrix_of, times
from penstock.pdf.pages import bulk

_FORM_DEPTH = 12
_MOST = 200_000


@dataclass(slots=True)
class Objects:
    """Addresses. `forms` has the matrix of each path's forms, in the order of the paths."""

    images: list[tuple[int, Matrix]] = field(default_factory=list)
    paths: list[int] = field(default_factory=list)
    forms: list[Matrix] = field(default_factory=list)
    is_cut: bool = False


def objects_of(page: Any) -> Objects:
    found = Objects()
    left = _unfold(bulk.objects_of(bulk.address_of(page), _count(page)), IDENTITY, found, (0, _MOST))
    found.is_cut = left <= 0
    return found


def handle_of(item: int) -> Any:
    """For the functions that are asked once."""
    return ctypes.cast(item, raw.FPDF_PAGEOBJECT)


def _count(page: Any) -> int:
    return min(max(0, int(raw.FPDFPage_CountObjects(page))), _MOST)


def _unfold(items: list[tuple[int, int]], matrix: Matrix, found: Objects, bound: tuple[int, int]) -> int:
    """`bound` is how deep we are and how many objects may still be seen; returns the latter."""
    depth, left = bound
    left -= len(items)
    paths = [item for item, kind in items if kind == raw.FPDF_PAGEOBJ_PATH]
    found.paths += paths
    found.forms += [matrix] * len(paths)
    for item, kind in items:
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            found.images.append((item, matrix))
        elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _FORM_DEPTH and left > 0:
            form = handle_of(item)
            count = min(max(0, raw.FPDFFormObj_CountObjects(form)), left)
            inner = times(matrix_of(form), matrix)
            left = _unfold(bulk.objects_of_form(item, count), inner, found, (depth + 1, left))
    return left
