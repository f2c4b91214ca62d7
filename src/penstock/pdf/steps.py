"""What crosses between the passes over a document: plain values, decoded in our own process without any parser."""

import msgspec

from penstock.pdf.pages.images import ImageBytes
from penstock.pdf.pages.model import Page

UNREADABLE = "unreadable"
LOW_CONFIDENCE = "low_confidence"
PICTURES_MISSING = "pictures_missing"  # they are placed on the page, and their files could not be made


class Step(msgspec.Struct, omit_defaults=True):
    """A page after the text pass: whole, or a draft for the recogniser, encoded."""

    number: int
    page: Page | None = None
    draft: bytes = b""
    pictures: dict[str, ImageBytes] | None = None  # by the ids of the page's images; None: not taken yet
