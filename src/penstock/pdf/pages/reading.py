"""Reads pages with PDFium, in the sandbox: text, images and lines in one pass, and what must be recognised.

A call stops by itself when its share of time or of answer is used up and returns what it has, at least one page:
the caller goes on from there. PDFium sees only files that the inspection has passed.
"""

import time
from contextlib import closing
from typing import Any, BinaryIO

import msgspec

from penstock.pdf.annotations import has_too_many, opened_as_shown
from penstock.pdf.opening import opened_document
from penstock.pdf.pages.images import MOST_IMAGES, ImageBytes, Room, pictures_of, placed
from penstock.pdf.pages.model import Box, Page, Ruling
from penstock.pdf.pages.objects import objects_of
from penstock.pdf.pages.regions import Regions
from penstock.pdf.pages.rulings import drawn_of
from penstock.pdf.pages.sheet import sheet_of
from penstock.pdf.pages.streams import Streams
from penstock.pdf.pages.text import read_text

UNREADABLE = "unreadable"


class ReadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one call may do. The answer of a call is about 100 bytes a span."""

    seconds: float = 10.0
    spans: int = 20_000  # of all pages of the call, after which it stops
    characters: int = 200_000  # of one page; what is beyond is left out, with a warning
    rulings: int = 5_000  # of one page
    picture_share: float = 0.25  # of the page: smaller pictures beside text are not looked at for text in them
    picture_bytes: int = 0  # room for the pictures of all pages of the call, as files


class HiddenText(msgspec.Struct, frozen=True, omit_defaults=True):
    """Text that is drawn invisibly: how many letters, and whether they are among the page's spans."""

    letters: int = 0
    is_used: bool = False


class PageDraft(msgspec.Struct, omit_defaults=True):
    """A page as the file tells it. Where `needs_ocr` is recognised, the spans named by `garbled` give way."""

    page: Page
    rulings: list[Ruling] = []
    needs_ocr: list[Box] = []
    garbled: list[str] = []
    hidden: HiddenText = HiddenText()
    elapsed: float = 0.0
    pictures: dict[str, ImageBytes] | None = None  # by the ids of images; None: not taken


def read_pages(file: BinaryIO, first: int, last: int, options: dict[str, Any]) -> list[PageDraft]:
    """Pages `first` to `last`, both from 1 and included, or as many of them as the options allow; at least one."""
    bounds = msgspec.convert(options, ReadOptions)
    begun = time.monotonic()
    room = Room(bounds.picture_bytes, begun + bounds.seconds, Streams(file))
    drafts: list[PageDraft] = []
    spans = 0
    with opened_document(file) as document, closing(room.streams):
        for number in range(first, last + 1):
            turn = time.monotonic()
            with opened_as_shown(document, number - 1) as page:
                draft = _unreadable(number) if page is None else _draft((document, page), number, bounds, room)
            draft.elapsed = round(time.monotonic() - turn, 6)
            drafts.append(draft)
            spans += len(draft.page.spans) + len(draft.rulings) // 2
            if time.monotonic() - begun > bounds.seconds or spans > bounds.spans:
                break
    return drafts


def _draft(opened: tuple[Any, Any], number: int, bounds: ReadOptions, room: Room) -> PageDraft:
    document, page = opened
    sheet = sheet_of(page)
    objects = objects_of(page)
    drawn = drawn_of(document, objects, sheet, bounds.rulings)
    shown = placed(page, objects, sheet)
    images = [image for image, _ in shown[:MOST_IMAGES]]
    layer = read_text(page, sheet, drawn.rulings, bounds.characters)
    verdict = Regions(page, layer, images, bounds.picture_share).verdict()
    said = {
        "text_cut": layer.is_cut,
        "images_cut": len(shown) > MOST_IMAGES or objects.is_cut,
        "rulings_cut": drawn.is_cut,
        "images_in_patterns": drawn.has_patterns,
        "annotations_cut": has_too_many(page),
    }
    return PageDraft(
        page=Page(
            number,
            round(sheet.width, 2),
            round(sheet.height, 2),
            sheet.rotation,
            spans=verdict.spans,
            images=images,
            warnings=[*verdict.warnings, *(name for name, holds in said.items() if holds)],
        ),
        rulings=drawn.rulings,
        needs_ocr=verdict.needs_ocr,
        garbled=verdict.garbled,
        hidden=HiddenText(sum(len(span.text) for span in layer.hidden), verdict.hidden_used),
        pictures=pictures_of(document, page, shown, room) if room.left > 0 else None,
    )


def _unreadable(number: int) -> PageDraft:
    return PageDraft(Page(number, 0.0, 0.0, warnings=[UNREADABLE]))
