"""What crosses between the passes over a document: plain values, decoded in our own process without any parser."""

import re
from collections.abc import Iterator

import msgspec

from penstock.pdf.pages.images import ImageBytes
from penstock.pdf.pages.model import Page

UNREADABLE = "unreadable"
LOW_CONFIDENCE = "low_confidence"
FIRST_FRAME_ONLY = "first_frame_only"  # of a moving picture
PICTURES_MISSING = "pictures_missing"  # they are placed on the page, and their files could not be made
_NAME = re.compile(r"[0-9a-f]{32}\.(?:png|jpg)")


class Step(msgspec.Struct, omit_defaults=True):
    """A page after the text pass: whole, or a draft for the recogniser, encoded."""

    number: int
    page: Page | None = None
    draft: bytes = b""
    pictures: dict[str, ImageBytes] | None = None  # by the ids of the page's images; None: not taken yet


def with_told_before(steps: list[Step]) -> Iterator[Step]:
    """A picture that stands on several pages of an answer travels once. One that never came is as if not taken."""
    told: dict[str, bytes] = {}
    for step in steps:
        for picture in (step.pictures or {}).values():
            picture.data = told.setdefault(picture.name, picture.data)
        if not all(map(is_sound, (step.pictures or {}).values())):
            step.pictures = None
        yield step


def is_sound(picture: ImageBytes) -> bool:
    """It will be a file of this name, and those who made it are not trusted."""
    return bool(picture.data) and _NAME.fullmatch(picture.name) is not None
