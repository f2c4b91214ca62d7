"""PDFium asked for many things at once. A call through its ordinary binding costs more than what it returns.

Handles are plain addresses here, and results are written by PDFium straight into an array. Nothing is checked on the
way: callers pass only handles that PDFium gave them, and close none while they are in use.
"""

import ctypes
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from pypdfium2 import raw

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]

_SLOTS = 4096
_PALE = 245  # of 255
_MOST_MARKS = 8
_OC = "OC\0".encode("utf-16-le")
_name = ctypes.create_string_buffer(64)
_address, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


def _direct(name: str, result: Any, *arguments: Any) -> Any:
    """Without releasing the interpreter's lock: there is one thread, and the call is shorter than that."""
    place = ctypes.cast(getattr(raw, name), ctypes.c_void_p).value or 0
    return ctypes.PYFUNCTYPE(result, *arguments)(place)


# Without declared arguments a call takes half the time. They must then be small numbers or addresses of ctypes' own.
_unicode = _direct("FPDFText_GetUnicode", ctypes.c_uint)
_loose_box = _direct("FPDFText_GetLooseCharBox", None)
_tight_box = _direct("FPDFText_GetCharBox", _int, _address, _int, _address, _address, _address, _address)
_text_object = _direct("FPDFText_GetTextObject", _size)
_generated = _direct("FPDFText_IsGenerated", _int)
_map_error = _direct("FPDFText_HasUnicodeMapError", _int)
_page_object = _direct("FPDFPage_GetObject", _size, _address, _int)
_form_object = _direct("FPDFFormObj_GetObject", _size, _address, _int)
_kind = _direct("FPDFPageObj_GetType", _int, _address)
_bounds = _direct("FPDFPageObj_GetBounds", _int, _address, _address, _address, _address, _address)
_char_matrix = _direct("FPDFText_GetMatrix", None)
_draw_mode = _direct("FPDFPath_GetDrawMode", _int, _address, _address, _address)
_count_segments = _direct("FPDFPath_CountSegments", _int, _address)
_segment = _direct("FPDFPath_GetPathSegment", _size, _address, _int)
_segment_kind = _direct("FPDFPathSegment_GetType", _int, _address)
_segment_closes = _direct("FPDFPathSegment_GetClose", _int, _address)
_segment_point = _direct("FPDFPathSegment_GetPoint", _int, _address, _address, _address)
_matrix = _direct("FPDFPageObj_GetMatrix", _int, _address, _address)
_char_size = _direct("FPDFText_GetFontSize", ctypes.c_double)
_render_mode = _direct("FPDFTextObj_GetTextRenderMode", _int, _address)
_font = _direct("FPDFTextObj_GetFont", _size, _address)
_fill_colour = _direct("FPDFPageObj_GetFillColor", _int, _address, _address, _address, _address, _address)
_count_marks = _direct("FPDFPageObj_CountMarks", _int, _address)
_mark = _direct("FPDFPageObj_GetMark", _size, _address, ctypes.c_ulong)
_mark_name = _direct("FPDFPageObjMark_GetName", _int, _address, _address, ctypes.c_ulong, _address)
_text = _direct("FPDFText_GetText", _int, _address, _int, _int, _address)


@dataclass(frozen=True, slots=True)
class Looks:
    """Of some text objects: the matrix that scales and turns them (forms included), font size, mode, font."""

    matrices: Floats
    sizes: Floats
    modes: Counts
    fonts: list[int]


class _Slots:
    """Places that PDFium writes to, made once: to make an address for each call is dearer than the call."""

    def __init__(self, numbers: int) -> None:
        memory = (ctypes.c_float * (_SLOTS * numbers))()
        self._array = np.ctypeslib.as_array(memory).reshape(_SLOTS, numbers)
        self._places = [ctypes.byref(memory, at) for at in range(0, ctypes.sizeof(memory), 4 * numbers)]

    def filled(self, function: Any, text_page: int, indices: Sequence[int]) -> Floats:
        """What the function writes for each character; zeros where it writes nothing."""
        made = np.empty((len(indices), self._array.shape[1]))
        for start in range(0, len(indices), _SLOTS):
            some = indices[start : start + _SLOTS]
            self._array[: len(some)] = 0
            _run(map(function, repeat(_address(text_page)), some, self._places))
            made[start : start + len(some)] = self._array[: len(some)]
        return made


_boxes, _matrices = _Slots(4), _Slots(6)


def address_of(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def codes_of(text_page: int, count: int) -> Codes:
    """All characters, in PDFium's order, with the spaces and line ends that it adds.

    Taken from the whole text where that has a unit for each character: nothing left out, nothing in two units.
    """
    units = np.zeros(count + 1, np.uint16)
    written = _text(text_page, 0, count, units.ctypes.data)
    told = units[:-1]
    if written == count + 1 and not (count and told.max() >= 0xD800 and ((told >= 0xD800) & (told <= 0xDFFF)).any()):
        return told.astype(np.uint32)
    return _with_pairs_joined(np.fromiter(map(_unicode, repeat(_address(text_page)), range(count)), np.uint32, count))


def _with_pairs_joined(codes: Codes) -> Codes:
    """PDFium tells some letters in two halves: the first becomes the letter, the second a mark without width."""
    high = (codes[:-1] >= 0xD800) & (codes[:-1] <= 0xDBFF) & (codes[1:] >= 0xDC00) & (codes[1:] <= 0xDFFF)
    at = np.flatnonzero(high)
    codes[at] = 0x10000 + ((codes[at] - 0xD800) << 10) + (codes[at + 1] - 0xDC00)
    codes[at + 1] = 0x200B
    return codes


def loose_boxes(text_page: int, indices: Sequence[int]) -> Floats:
    """Left, top, right, bottom, as wide as the letter's step and as high as its font; points of the page, y upwards."""
    return _boxes.filled(_loose_box, text_page, indices)


def text_objects(text_page: int, indices: Sequence[int]) -> npt.NDArray[np.uint64]:
    """0 for a character that PDFium added."""
    return np.fromiter(map(_text_object, repeat(_address(text_page)), indices), np.uint64, len(indices))


def tight_boxes(text_page: int, indices: Sequence[int]) -> Floats:
    """Left, top, right, bottom of the ink, not of the font."""
    found = np.zeros((len(indices), 4), np.float64)
    at = found.ctypes.data
    ends = [range(at + shift, at + shift + 32 * len(indices), 32) for shift in (0, 16, 24, 8)]
    _run(map(_tight_box, repeat(text_page), indices, *ends))  # which names them left, right, bottom, top
    return found


def are_added(text_page: int, indices: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which of these characters are not in the file: PDFium found a gap there."""
    return np.fromiter(
        (each == 1 for each in map(_generated, repeat(_address(text_page)), indices)), np.bool_, len(indices)
    )


def map_errors(text_page: int, indices: Iterable[int]) -> int:
    """How many of these characters have no known meaning: their codes stand in for one."""
    return list(map(_map_error, repeat(_address(text_page)), indices)).count(1)


def looks_of(text_page: int, indices: Sequence[int], items: Sequence[int]) -> Looks:
    """How letters look: one of each text object is asked for."""
    count = len(indices)
    return Looks(
        _matrices.filled(_char_matrix, text_page, indices),
        np.fromiter(map(_char_size, repeat(_address(text_page)), indices), np.float64, count),
        np.fromiter(map(_render_mode, items), np.int64, count),
        list(map(_font, items)),
    )


def are_pale(items: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which of these objects are painted so that paper would not show them: white, or see-through."""
    found = np.zeros((len(items), 4), np.uint32)
    found[:, 3] = 255
    at = found.ctypes.data
    _run(map(_fill_colour, items, *(range(at + shift, at + shift + 16 * len(items), 16) for shift in (0, 4, 8, 12))))
    pale: npt.NDArray[np.bool_] = (found[:, :3].min(1) >= _PALE) | (found[:, 3] <= 255 - _PALE)
    return pale


def are_optional(items: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which of these objects belong to a layer that a viewer may have switched off."""
    return np.fromiter((any(map(_is_layer, _marks_of(item))) for item in items), np.bool_, len(items))


def _marks_of(item: int) -> Iterable[int]:
    return (_mark(item, at) for at in range(min(_count_marks(item), _MOST_MARKS)))


def _is_layer(mark: int) -> bool:
    written = ctypes.c_ulong()
    return bool(_mark_name(mark, _name, len(_name), ctypes.byref(written))) and _name.raw[: len(_OC)] == _OC


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


def draw_modes(paths: Sequence[int]) -> npt.NDArray[np.int32]:
    """How each is filled, and whether it is stroked."""
    found = np.zeros((len(paths), 2), np.int32)
    at = found.ctypes.data
    _run(map(_draw_mode, paths, range(at, at + 8 * len(paths), 8), range(at + 4, at + 4 + 8 * len(paths), 8)))
    return found


def matrices_of(items: Sequence[int]) -> Floats:
    found = np.tile(np.array([1, 0, 0, 1, 0, 0], np.float32), (len(items), 1))
    at = found.ctypes.data
    _run(map(_matrix, items, range(at, at + 24 * len(items), 24)))
    return found.astype(np.float64)


def segment_counts(paths: Sequence[int]) -> Counts:
    return np.fromiter(map(_count_segments, paths), np.int64, len(paths)).clip(0)


def segments_of(paths: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Of all these paths, one after the other."""
    owners = chain.from_iterable(map(repeat, paths, counts))
    return list(map(_segment, owners, chain.from_iterable(map(range, counts))))


def segment_kinds(segments: Sequence[int]) -> Counts:
    return np.fromiter(map(_segment_kind, segments), np.int64, len(segments))


def segment_ends(segments: Sequence[int]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The point that each goes to, in the path's own system, and whether the shape is closed there."""
    points = np.zeros((len(segments), 2), np.float32)
    at = points.ctypes.data
    _run(
        map(
            _segment_point, segments, range(at, at + 8 * len(segments), 8), range(at + 4, at + 4 + 8 * len(segments), 8)
        )
    )
    return points.astype(np.float64), np.fromiter(map(_segment_closes, segments), np.bool_, len(segments))


def _run(calls: Iterable[Any]) -> None:
    deque(calls, maxlen=0)
