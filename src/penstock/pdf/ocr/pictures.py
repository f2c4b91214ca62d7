"""Pictures as documents: PNG, JPEG, TIFF, WebP decoded to what a person would see. Runs in the sandbox.

Only these four decoders are ever tried, the number of pixels is known before any is decoded, and whatever goes wrong
is one failure, PictureUnreadable, with a reason. Pages of a TIFF are its frames; of others the first counts.
"""

import math
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from penstock.pdf.ocr.bitmaps import Bitmap
from penstock.pdf.ocr.found import Picture

_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
_MOVING = ("PNG", "WEBP")
_LEAST_DPI = 100  # cameras and drawing programs write 72 or 96 without meaning it
_MOST_DPI = 2400
_A4_LENGTH = 842.0
_SCREEN_DPI = 96
_SMALL_SIDE = 736  # pictures with a shorter side are enlarged: letters on them are small for the detector
_MOST_ENLARGED = 3.0
_LONGEST = 16_000  # pixels of a side: a strip grows a lot when it gets paper around it
_PHOTO_PIXELS = 4_000_000
_WITH_ALPHA = {"RGBA", "LA", "PA", "La", "RGBa"}
_ORIENTATION = 0x0112  # how the camera was held
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip

Image.MAX_IMAGE_PIXELS = None  # `opened` checks, with a limit of our own


class PictureUnreadable(Exception):
    """Not a picture, a damaged one, or more than is allowed."""


@contextmanager
def opened(file: BinaryIO, max_pixels: int, frame: int = 1) -> Iterator[Image.Image]:
    """The picture, nothing decoded yet; errors inside are failures of the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(file, formats=_FORMATS) as picture:
                if frame > 1:
                    if not 1 <= frame <= _frames(picture):
                        raise PictureUnreadable(f"it has no page {frame}")
                    picture.seek(frame - 1)
                if picture.width * picture.height > max_pixels:
                    raise PictureUnreadable(f"{picture.width} × {picture.height} pixels, {max_pixels} allowed")
                yield picture
    except (OSError, ValueError, SyntaxError, EOFError, KeyError, TypeError, IndexError, AttributeError,
            ZeroDivisionError, OverflowError, NotImplementedError, RuntimeError, struct.error, zlib.error,
    ) as failure:  # fmt: skip
        # What Pillow raises for damaged files is not documented, and differs by format and kind of damage.
        raise PictureUnreadable(f"{type(failure).__name__}: {failure}"[:200]) from failure


def examine(file: BinaryIO, max_pixels: int, max_frames: int) -> Picture:
    """How many pages there are. The first is decoded in full, so that a broken file is refused here."""
    with opened(file, max_pixels) as picture:
        frames = _frames(picture)
        if frames > max_frames:
            raise PictureUnreadable(f"{frames} pages, {max_frames} allowed")
        picture.load()
        return Picture(frames, picture.width, picture.height)


def decode(file: BinaryIO, frame: int, dpi: float, limits: tuple[int, int]) -> tuple[Bitmap, float]:
    """The bitmap to look at and its resolution. Limits: pixels that may be decoded, pixels that may be looked at."""
    decoded_at_most, seen_at_most = limits
    with opened(file, decoded_at_most, frame) as picture:
        stored = picture.size
        across, down = _resolution(picture)
        share = _share(stored, dpi / across if _says_resolution(picture) else None, seen_at_most)
        if isinstance(picture, JpegImageFile) and share <= 0.5:  # its decoder can skip what would be thrown away
            picture.draft(None, (math.ceil(stored[0] * share), math.ceil(stored[1] * share)))
        picture.load()
        shrunk = math.sqrt(stored[0] * stored[1] / (picture.width * picture.height))  # a TIFF may have been turned
        factor = share * shrunk
        wanted = max(1, round(picture.width * factor)), max(1, round(picture.height * factor * across / down))
        seen = _plain(picture)
        if seen.size != wanted:
            seen = seen.resize(wanted, Image.Resampling.BICUBIC, reducing_gap=2.0)
        seen = _as_held(seen, picture.getexif().get(_ORIENTATION, 1))
    return np.ascontiguousarray(np.asarray(seen.convert("RGB"))[:, :, ::-1]), share * across


def is_moving(file: BinaryIO, max_pixels: int) -> bool:
    """Whether a PNG or WebP has frames that nobody will read. Those of a JPEG are previews of the same."""
    with opened(file, max_pixels) as picture:
        return picture.format in _MOVING and int(getattr(picture, "n_frames", 1)) > 1


def _frames(picture: Image.Image) -> int:
    return int(getattr(picture, "n_frames", 1)) if picture.format == "TIFF" else 1


def _says_resolution(picture: Image.Image) -> bool:
    said = picture.info.get("dpi", (0, 0))
    return isinstance(said, tuple) and len(said) == 2 and _LEAST_DPI <= max(said) <= _MOST_DPI and min(said) > 0


def _resolution(picture: Image.Image) -> tuple[float, float]:
    """Pixels per inch, across and down, which differ on a fax. Unsaid: as on a screen, but no page longer than A4."""
    if _says_resolution(picture):
        across, down = map(float, picture.info["dpi"])
        return (across, down if 1 / 3 < across / down < 3 else across)
    guessed = max(_SCREEN_DPI, max(picture.size) * 72 / _A4_LENGTH)
    return guessed, guessed


def _share(size: tuple[int, int], said: float | None, most: int) -> float:
    """How much larger or smaller it is looked at than it is stored."""
    area, shorter = size[0] * size[1], min(size)
    share = min(1.0, said if said is not None else math.sqrt(_PHOTO_PIXELS / area))
    share = max(share, min(_SMALL_SIDE / shorter, _MOST_ENLARGED))
    return min(share, math.sqrt(most / area), _LONGEST / max(size))


def _plain(picture: Image.Image) -> Image.Image:
    """Eight bits, on white paper, grey or RGB."""
    if picture.mode in {"L", "RGB"} and "transparency" not in picture.info:
        return picture
    if picture.mode == "1":
        return picture.convert("L")
    if picture.mode[0] in "IF":  # 16 and 32 bits: from the darkest to the lightest that occurs
        values = np.asarray(picture, np.float32)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        scaled = np.nan_to_num((values - low) * (255 / max(high - low, 1e-9)))
        return Image.fromarray(scaled.astype(np.uint8))
    if picture.mode in _WITH_ALPHA or "transparency" in picture.info:
        seen = picture.convert("RGBA")
        paper = Image.new("RGB", seen.size, "white")
        paper.paste(seen, mask=seen.getchannel("A"))
        return paper
    return picture.convert("RGB")


def _as_held(picture: Image.Image, orientation: object) -> Image.Image:
    turn = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return picture if turn is None else picture.transpose(turn)
