"""Makes whole pages of what was read: tables, then blocks in reading order. In the sandbox, so on all its places.

`read_finished` is the text pass: pages that need no recogniser come back whole, the others as a draft that only the
recogniser opens.
"""

from typing import Any, BinaryIO

import msgspec

from penstock.pdf.pages.layout import arrange
from penstock.pdf.pages.model import Page, Ruling
from penstock.pdf.pages.reading import PageDraft, read_pages
from penstock.pdf.pages.tables import find_tables
from penstock.pdf.steps import UNREADABLE, Step


def read_finished(file: BinaryIO, first: int, last: int, options: dict[str, Any]) -> list[Step]:
    """Pages `first` to `last`, or as many of them as fit into a call; at least one."""
    steps = []
    for draft in read_pages(file, first, last, options):
        page, pictures = draft.page, draft.pictures
        draft.pictures = None
        if draft.needs_ocr:
            steps.append(Step(page.number, draft=msgspec.msgpack.encode(draft), pictures=pictures))
        else:
            finish(page, draft.rulings)
            steps.append(Step(page.number, page, pictures=pictures))
    return steps


def finish_without_pictures(draft: bytes) -> Page:
    """What a page says without its recognised parts, which could not be had."""
    begun = msgspec.msgpack.decode(draft, type=PageDraft)
    page = begun.page
    page.spans = [span for span in page.spans if span.id not in set(begun.garbled)]
    finish(page, begun.rulings)
    page.warnings.append(UNREADABLE)
    return page


def finish(page: Page, rulings: list[Ruling]) -> None:
    """Fill `tables` and `blocks` from the spans."""
    if UNREADABLE in page.warnings:
        return
    if page.spans:
        page.tables = find_tables(page.spans, rulings, (page.width, page.height))
    arrange(page)
