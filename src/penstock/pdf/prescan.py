"""From the measures of the pages to what the job is told: blank pages, text coverage, penalties. Pure.

A page is blank when hardly any text is seen on it, next to no ink, and no picture of size; where a measure is
missing it is not blank, as a page called blank is never looked at again. A page number, or dust, is below the ink
of the rule; a line across the page is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.pdf.metrics import PageMetrics

ENOUGH_TEXT = 100  # letters from which on a page counts as covered by text
_SCANNED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class PrescanRules:
    """The rules of a profile, by the names they have there."""

    min_text_chars_for_blank: int
    max_ink_for_blank: float
    ocr_rate_penalty_threshold: float
    ocr_rate_penalty_weight: float
    no_images_penalty_weight: float


@dataclass(frozen=True, slots=True)
class Penalty:
    """A rule that the document falls short of."""

    rule: str
    weight: float
    reason: str


@dataclass(frozen=True, slots=True)
class Prescan:
    """What is known of a document before anything costly is done with it."""

    all_blank: bool
    blank_pages: list[int]  # from 1
    ocr_rate: float
    image_count: int
    penalties: list[Penalty]
    total_penalty: float
    raw_metrics: dict[str, Any]


def judge_pages(pages: Sequence[PageMetrics], rules: PrescanRules, images_in_patterns: int = 0) -> Prescan:
    """`images_in_patterns` is what the inspection found beside the images that the pages list."""
    blank = [page.number for page in pages if is_blank(page, rules)]
    written = [page for page in pages if not is_blank(page, rules)]
    rate = text_coverage(written)
    images = sum(page.image_count for page in written) + images_in_patterns
    penalties = _penalties(rate, images, rules)
    return Prescan(
        all_blank=not written,
        blank_pages=blank,
        ocr_rate=rate,
        image_count=images,
        penalties=penalties,
        total_penalty=round(sum(each.weight for each in penalties), 6),
        raw_metrics={
            "total_pages": len(pages),
            "blank_page_count": len(blank),
            "blank_rate": round(len(blank) / len(pages), 4) if pages else 1.0,
            "ocr_rate": rate,
            "image_count": images,
            "text_chars": sum(page.text_chars for page in pages),
            "hidden_chars": sum(page.hidden_chars for page in pages),
            "scanned_page_count": sum(is_scanned(page, rules) for page in pages),
            "rotated_page_count": sum(page.rotation != 0 for page in pages),
            "unreadable_pages": [page.number for page in pages if not page.readable],
        },
    )


def is_blank(page: PageMetrics, rules: PrescanRules) -> bool:
    if not page.readable or page.ink is None:
        return False  # ink was not measured: there was text, or a picture
    return page.text_chars < rules.min_text_chars_for_blank and page.ink <= rules.max_ink_for_blank


def is_scanned(page: PageMetrics, rules: PrescanRules) -> bool:
    """A picture of a page: what text there is, if any, lies invisibly over it."""
    return page.text_chars < rules.min_text_chars_for_blank and page.image_share >= _SCANNED_SHARE


def text_coverage(pages: Sequence[PageMetrics]) -> float:
    """How far the pages can be read without OCR, 0 to 1: the mean of what each has of a page's worth of text.

    An invisible layer counts, as it can be read. 100 letters are a page's worth: a picture with a caption is covered.
    """
    if not pages:
        return 0.0
    covered = [min(1.0, (page.text_chars + page.hidden_chars) / ENOUGH_TEXT) for page in pages]
    return round(sum(covered) / len(covered), 4)


def _penalties(rate: float, images: int, rules: PrescanRules) -> list[Penalty]:
    found = []
    if rate < rules.ocr_rate_penalty_threshold:
        reason = f"text coverage {rate:.2f} is below {rules.ocr_rate_penalty_threshold:g}"
        found.append(Penalty("ocr_rate_low", rules.ocr_rate_penalty_weight, reason))
    if not images:
        found.append(Penalty("no_images", rules.no_images_penalty_weight, "the document has no images"))
    return found
