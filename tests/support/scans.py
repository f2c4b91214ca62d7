"""Scans and photos for tests, drawn here: a line or two each, as reading them is dear."""

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from tests.support.pdfs import FONT, stream, written


def scan(*lines: str, size: tuple[int, int] = (620, 170), top: int = 30, letters: int = 30) -> Image.Image:
    """Black on white, letters about a sixth of an inch high at 150 dpi."""
    picture = Image.new("L", size, 255)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=letters)
    for at, line in enumerate(lines):
        draw.text((30, top + at * 60), line, fill=0, font=font)
    return picture


def saved_as(picture: Image.Image, kind: str, **options) -> bytes:
    data = io.BytesIO()
    picture.save(data, kind, **options)
    return data.getvalue()


def scanned_pdf(pages: Sequence[tuple[bytes, Image.Image | None]], size: tuple[int, int] = (300, 160)) -> bytes:
    """Pages of text (a content stream) and a scan, which lies on the lower half, or on all of a page without text."""
    objects: dict[int, str | bytes] = {1: "<</Type/Catalog/Pages 2 0 R>>"}
    kids = []
    for at, (content, picture) in enumerate(pages):
        page = 3 + 3 * at
        kids.append(f"{page} 0 R")
        drawn = b""
        xobject = ""
        if picture is not None:
            height = size[1] / 2 if content else size[1]
            drawn = b"q %d 0 0 %d 0 0 cm /I Do Q" % (size[0], height)
            xobject = f"/XObject<</I {page + 2} 0 R>>"
            looks = f"/Type/XObject/Subtype/Image/Width {picture.width}/Height {picture.height}"
            objects[page + 2] = stream(picture.tobytes(), looks + "/ColorSpace/DeviceGray/BitsPerComponent 8")
        resources = FONT[:-2] + xobject + ">>"
        objects[page] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size[0]} {size[1]}]/Resources{resources}"
            f"/Contents {page + 1} 0 R>>"
        )
        objects[page + 1] = stream(content + b"\n" + drawn)
    objects[2] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>"
    return written(objects)
