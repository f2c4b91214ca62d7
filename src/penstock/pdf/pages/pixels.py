"""An image object of PDFium: its pixels with its mask, and its bytes as they are stored."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pypdfium2 import raw

from penstock.pdf.matrices import Matrix, bounds_of, matrix_of

Pixels = NDArray[np.uint8]  # rows, columns, and red, green, blue or those with alpha
_BAND = 16  # rows that are turned around at a time, so that they stay near the processor
_GREEN_AND_ALPHA, _BLUE_AND_RED = np.uint32(0xFF00FF00), np.uint32(0x00FF00FF)
_OPAQUE = 0xFF000000
_CORNERS, _LINES_OF_A_RECTANGLE = 4, 6
_TWO_BYTES = np.uint32(16)


@dataclass(frozen=True, slots=True)
class Turn:
    """How the page shows a picture that is stored some other way round."""

    swaps: bool = False  # rows become columns
    upside_down: bool = False
    mirrored: bool = False

    def applied(self, pixels: Pixels) -> Pixels:
        if self == UPRIGHT:
            return pixels
        seen = pixels.swapaxes(0, 1) if self.swaps else pixels
        return np.ascontiguousarray(seen[:: -1 if self.upside_down else 1, :: -1 if self.mirrored else 1])


UPRIGHT = Turn()


def turn_of(matrix: Matrix) -> Turn:
    """Of an image that this takes to the display, whose y goes down; the nearest quarter where it leans."""
    a, b, c, d, _, _ = matrix
    if abs(a * d) >= abs(b * c):
        return Turn(upside_down=d > 0, mirrored=a < 0)
    return Turn(swaps=True, upside_down=b < 0, mirrored=c > 0)


def drawn_alone(document: Any, page: Any, item: Any, size: tuple[float, float]) -> Pixels | None:
    """The image by itself, without alpha where nothing shines through; None where PDFium cannot decode it."""
    raw.FPDFPageObj_SetMatrix(item, raw.FS_MATRIX(size[0], 0, 0, size[1], 0, 0))
    bitmap = raw.FPDFImageObj_GetRenderedBitmap(document, page, item)
    if not bitmap:
        return None
    try:
        return _pixels(bitmap)
    finally:
        raw.FPDFBitmap_Destroy(bitmap)


def _pixels(bitmap: Any) -> Pixels:
    """A copy."""
    width, height = raw.FPDFBitmap_GetWidth(bitmap), raw.FPDFBitmap_GetHeight(bitmap)
    stride = raw.FPDFBitmap_GetStride(bitmap)
    start = ctypes.cast(raw.FPDFBitmap_GetBuffer(bitmap), ctypes.POINTER(ctypes.c_ubyte))
    rows = np.ctypeslib.as_array(start, (height, stride))
    kind = raw.FPDFBitmap_GetFormat(bitmap)
    if kind == raw.FPDFBitmap_Gray:
        return np.repeat(rows[:, :width, None], 3, axis=2)
    if kind == raw.FPDFBitmap_BGR:
        return np.ascontiguousarray(rows[:, : 3 * width].reshape(height, width, 3)[:, :, ::-1])
    four = np.ascontiguousarray(rows[:, : 4 * width]).view("<u4")
    turned = _turned(four).view(np.uint8).reshape(height, width, 4)
    is_opaque = kind == raw.FPDFBitmap_BGRx or int(four.min()) >= _OPAQUE
    return np.ascontiguousarray(turned[:, :, :3]) if is_opaque else turned


def _turned(pixels: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Blue, green, red as red, green, blue."""
    made = np.empty_like(pixels)
    for top in range(0, len(pixels), _BAND):
        rows, out = pixels[top : top + _BAND], made[top : top + _BAND]
        np.bitwise_and(rows, _GREEN_AND_ALPHA, out=out)
        others = rows & _BLUE_AND_RED
        out |= others >> _TWO_BYTES
        out |= others << _TWO_BYTES
    return made


def is_cut(item: Any, width: int, height: int) -> bool:
    """Whether the page shows less than all of an image of so many pixels; where that is not clear, it does."""
    clip = raw.FPDFPageObj_GetClipPath(item)
    left, bottom, right, top = bounds_of(matrix_of(item), 0.0, 0.0, 1.0, 1.0)
    slack_x, slack_y = (right - left) / (2 * width or 1), (top - bottom) / (2 * height or 1)
    for index in range(max(0, raw.FPDFClipPath_CountPaths(clip)) if clip else 0):
        points = _corners(clip, index)
        across, up = {x for x, _ in points}, {y for _, y in points}
        if len(across) != 2 or len(up) != 2:  # no upright rectangle
            return True
        if min(across) > left + slack_x or max(across) < right - slack_x:
            return True
        if min(up) > bottom + slack_y or max(up) < top - slack_y:
            return True
    return False


def _corners(clip: Any, index: int) -> list[tuple[float, float]]:
    """Of a path of few straight lines; none of any other."""
    count = raw.FPDFClipPath_CountPathSegments(clip, index)
    points = []
    for at in range(count if count <= _LINES_OF_A_RECTANGLE else 0):
        segment = raw.FPDFClipPath_GetPathSegment(clip, index, at)
        x, y = ctypes.c_float(), ctypes.c_float()
        if raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_BEZIERTO:
            return []
        if raw.FPDFPathSegment_GetPoint(segment, x, y):
            points.append((x.value, y.value))
    return points if len(set(points)) == _CORNERS else []


def filters_of(item: Any) -> list[bytes]:
    names = []
    for index in range(max(0, raw.FPDFImageObj_GetImageFilterCount(item))):
        name = ctypes.create_string_buffer(64)
        raw.FPDFImageObj_GetImageFilter(item, index, name, len(name))
        names.append(name.value)
    return names


def raw_data(item: Any) -> bytes:
    """As the file has it."""
    return _data(raw.FPDFImageObj_GetImageDataRaw, item)


def decoded_data(item: Any) -> bytes:
    """Without the filters that any stream may have; a JPEG stays one."""
    return _data(raw.FPDFImageObj_GetImageDataDecoded, item)


def _data(get: Any, item: Any) -> bytes:
    size = get(item, None, 0)
    data = (ctypes.c_ubyte * size)()
    get(item, data, size)
    return bytes(data)
