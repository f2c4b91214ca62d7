"""Answers of sources, read: the hot path of the harvest.

Invariant: `Reader.read` raises nothing but PenstockError, whatever bytes it is given; an item that cannot be a record
never keeps the others of its page from being some.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.harvest.page import Page
from penstock.harvest.reading.json_pages import JsonPages
from penstock.harvest.reading.rules import Rules
from penstock.harvest.slices import Span
from penstock.harvest.spec import Sections
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

if TYPE_CHECKING:
    from penstock.harvest.reading.xml_pages import XmlPages

__all__ = ["Reader"]


class Reader:
    """Reads the answers of one endpoint. Built once for each snapshot: paths are compiled here, not page by page."""

    def __init__(self, sections: Sections, *, ids_only: bool = False) -> None:
        rules = Rules(sections, ids_only=ids_only)
        _check_complete(sections, rules)
        self._pages: XmlPages | JsonPages = _xml_pages(sections, rules) or JsonPages(sections, rules)

    def read(self, body: bytes, *, span: Span | None = None, asked: Sequence[str] = ()) -> Page:
        """`asked`: ids that were asked for by id. Those that the answer does not hold become faults."""
        return self._pages.read(body, span, asked)

    def count(self, body: bytes) -> int:
        """The total alone, from an answer that need not hold items. An error that means "no results" counts as 0."""
        return self._pages.count(body)


def _xml_pages(sections: Sections, rules: Rules) -> "XmlPages | None":
    if sections.response.format != "XML":
        return None
    from penstock.harvest.reading.xml_pages import XmlPages  # large: only who needs it loads it

    return XmlPages(sections, rules)


def _check_complete(sections: Sections, rules: Rules) -> None:
    response = sections.response
    missing = [
        key
        for key, path, needed in (
            ("itemsPath", response.items_path, True),
            ("idPath", response.id_path, True),
            ("updatedAtPath", response.updated_at_path, rules.needs_time),
        )
        if needed and not path
    ]
    if missing:
        problems = [
            {"rule": "path", "key": f"response.{key}", "message_zh": f"缺少 {key}", "message_en": f"{key} is missing"}
            for key in missing
        ]
        raise PenstockError(error_codes.SPEC_INVALID, problems=problems)
