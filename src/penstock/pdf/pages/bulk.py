"""PDFium asked for many things at once. A call through its ordinary binding costs more than what it returns.

Handles are plain addresses here, and results are written by PDFium straight into an array. Nothing is checked on the
way: callers pass only handles that PDFium gave them, and close none while they are in use.
"""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from pypdfium2 import raw

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint32]

_address, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


def _direct(name: str, result: Any, *arguments: Any) -> Any:
    """Without releasing the interpreter's lock: there is one thread, and the call is shorter than that."""
    place = ctypes.cast(getattr(raw, name), ctypes.c_void_p).value
    return ctypes.PYFUNCTYPE(result, *arguments)(place)


_unicode = _direct("FPDFText_GetUnicode", ctypes.c_uint, _address, _int)
_loose_box = _direct("FPDFText_GetLooseCharBox", _int, _address, _int, _address)
_tight_box = _direct("FPDFText_GetCharBox", _int, _address, _int, _address, _address, _address, _address)
_text_object = _direct("FPDFText_GetTextObject", _size, _address, _int)
_map_error = _direct("FPDFText_HasUnicodeMapError", _int, _address, _int)
_page_object = _direct("FPDFPage_GetObject", _size, _address, _int)
_form_object = _direct("FPDFFormObj_GetObject", _size, _address, _int)
_kind = _direct("FPDFPageObj_GetType", _int, _address)
_bounds = _direct("FPDFPageObj_GetBounds", _int, _address, _address, _address, _address, _address)
_char_matrix = _direct("FPDFText_GetMatrix", _int, _address, _int, _address)
char_size = _direct("FPDFText_GetFontSize", ctypes.c_double, _address, _int)
render_mode = _direct("FPDFTextObj_GetTextRenderMode", _int, _address)
font_of = _direct("FPDFTextObj_GetFont", _size, _address)


@dataclass(frozen=True, slots=True)
class Characters:
    """In PDFium's order, with the spaces and line ends that it adds (their object is 0)."""

    codes: Codes
    boxes: Floats  # left, top, right, bottom in points of the page, y upwards
    objects: npt.NDArray[np.uint64]


def address_of(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def characters(text_page: int, count: int) -> Characters:
    boxes = np.zeros((count, 4), np.float32)
    at = boxes.ctypes.data
    asked = (repeat(text_page), range(count))
    _run(map(_loose_box, *asked, range(at, at + 16 * count, 16)))
    return Characters(
        np.fromiter(map(_unicode, *asked), np.uint32, count),
        boxes.astype(np.float64),
        np.fromiter(map(_text_object, *asked), np.uint64, count),
    )


def tight_boxes(text_page: int, indices: Sequence[int]) -> Floats:
    """Left, top, right, bottom of the ink, not of the font."""
    found = np.zeros((len(indices), 4), np.float64)
    at = found.ctypes.data
    ends = [range(at + shift, at + shift + 32 * len(indices), 32) for shift in (0, 16, 24, 8)]
    _run(map(_tight_box, repeat(text_page), indices, *ends))  # which names them left, right, bottom, top
    return found


def map_errors(text_page: int, indices: Iterable[int]) -> int:
    """How many of these characters have no known meaning: their codes stand in for one."""
    return sum(each == 1 for each in map(_map_error, repeat(text_page), indices))


def char_matrix(text_page: int, index: int) -> tuple[float, float, float, float]:
    """How the letter is scaled and turned, forms included."""
    found = (ctypes.c_float * 6)()
    _char_matrix(text_page, index, ctypes.addressof(found))
    return found[0], found[1], found[2], found[3]


def objects_of(page: int, count: int) -> list[tuple[int, int]]:
    """Each object of a page with its kind."""
    found = list(map(_page_object, repeat(page), range(count)))
    return list(zip(found, map(_kind, found), strict=True))


def objects_of_form(form: int, count: int) -> list[tuple[int, int]]:
    found = [each for each in map(_form_object, repeat(form), range(count)) if each]
    return list(zip(found, map(_kind, found), strict=True))


def bounds_of_objects(items: Sequence[int]) -> Floats:
    """Left, bottom, right, top of each, in the system of the form that it is in."""
    found = np.zeros((len(items), 4), np.float32)
    at = found.ctypes.data
    ends = [range(at + shift, at + shift + 16 * len(items), 16) for shift in (0, 4, 8, 12)]
    _run(map(_bounds, items, *ends))
    return found.astype(np.float64)


def _run(calls: Iterable[int]) -> None:
    for _ in calls:
        pass
