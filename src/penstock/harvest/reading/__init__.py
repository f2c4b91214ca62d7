"""Answers of sources, read: the hot path of the harvest.

Invariant: `Reader.read` raises nothing but PenstockError, whatever bytes it is given; an item that cannot be a record
never keeps the others of its page from being some.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

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

T = TypeVar("T")
_AT_ONCE = 65_536  # bytes that are read in a few milliseconds, which the event loop can spare
_THREADS = ThreadPoolExecutor(4, thread_name_prefix="answers")


class Reader:
    """Reads the answers of one endpoint. Built once for each snapshot: paths are compiled here, not page by page."""

    def __init__(self, sections: Sections, *, ids_only: bool = False) -> None:
        self._sections, self._ids_only = sections, ids_only
        self._idle: list[Reader] = []  # for threads: a compiled XPath lets one of them in at a time
        rules = Rules(sections, ids_only=ids_only)
        _check_complete(sections, rules)
        self._pages: XmlPages | JsonPages = _xml_pages(sections, rules) or JsonPages(sections, rules)

    def read(self, body: bytes, *, span: Span | None = None, asked: Sequence[str] = ()) -> Page:
        """`asked`: ids that were asked for by id. Those that the answer does not hold become faults."""
        return self._pages.read(body, span, asked)

    def count(self, body: bytes) -> int:
        """The total alone, from an answer that need not hold items. An error that means "no results" counts as 0."""
        return self._pages.count(body)

    async def read_aside(self, body: bytes, *, span: Span | None = None, asked: Sequence[str] = ()) -> Page:
        """Reads as `read` does, a large answer in a thread: others on the event loop do not wait for it."""
        return await self._aside(len(body), lambda reader: reader.read(body, span=span, asked=asked))

    async def count_aside(self, body: bytes) -> int:
        return await self._aside(len(body), lambda reader: reader.count(body))

    async def _aside(self, size: int, work: Callable[["Reader"], T]) -> T:
        if size <= _AT_ONCE:
            return work(self)
        return await asyncio.get_running_loop().run_in_executor(_THREADS, self._lend, work)

    def _lend(self, work: Callable[["Reader"], T]) -> T:
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = Reader(self._sections, ids_only=self._ids_only)
        try:
            return work(reader)
        finally:
            self._idle.append(reader)


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
