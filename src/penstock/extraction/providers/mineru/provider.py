"""MinerU as an OCR provider: finds out which contract the server speaks, reads a document, whole or in parts.

The contract is pinned when it is first known, and looked for again when the server answers as if it were another.
"""

import asyncio
import math
import tempfile
from pathlib import Path

import structlog

from penstock.extraction.ports import Document, Notebook, Reading, Tools
from penstock.extraction.providers.mineru.errand import Desk, Errand, Position
from penstock.extraction.providers.mineru.family import Family, Order, Part, Ticket
from penstock.extraction.providers.mineru.notes import Notes
from penstock.extraction.providers.mineru.probing import is_hosted, probe
from penstock.extraction.providers.mineru.refusals import TooManyPages, ZipDamaged, not_understood, refused
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.providers.mineru.storing import Stored, store_result
from penstock.extraction.providers.mineru.web import Web
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

log = structlog.get_logger(__name__)
_PDF = "application/pdf"
_MOST_FAMILIES = 3  # a server that is another one each time is not waited for


class FamilyChanged(Exception):
    """The server speaks another contract than it did."""


class MineruProvider:
    name = "mineru"

    def __init__(self, settings: MineruSettings, tools: Tools) -> None:
        """OCR_NOT_CONFIGURED without an address, or without the token that the hosted service wants."""
        missing = None if settings.base_url else "base_url"
        if is_hosted(settings) and not settings.token.get_secret_value():
            missing = "token"
        if missing:
            raise PenstockError(error_codes.OCR_NOT_CONFIGURED, missing=MineruSettings.variable(missing))
        self._settings, self._tools = settings, tools
        self._web = Web(settings)
        self._family: Family | None = None
        self._probing = asyncio.Lock()

    @property
    def version(self) -> str:
        return "unknown" if self._family is None else f"{self._family.name} {self._family.version}"

    async def close(self) -> None:
        await self._web.close()

    async def read(self, document: Document, notebook: Notebook) -> Reading:
        notes, pages = Notes(notebook), await self._count(document)
        for _ in range(_MOST_FAMILIES):
            family = await self._pinned()
            await notes.belong_to(family.name)
            desk = self._desk(family, notebook, notes)
            try:
                return await self._read_with(desk, document, pages)
            except FamilyChanged:
                continue
            except PenstockError as failure:
                if failure.code is not error_codes.OCR_ANSWER_INVALID or not await self._is_another(family):
                    raise
        raise not_understood("FAMILY_UNSTEADY")

    def _desk(self, family: Family, notebook: Notebook, notes: Notes) -> Desk:
        async def check_family() -> None:
            if await self._is_another(family):
                raise FamilyChanged

        return Desk(family, self._settings, self._tools.clock, notebook, notes, check_family)

    async def _read_with(self, desk: Desk, document: Document, pages: int) -> Reading:
        began = self._tools.clock.monotonic()
        while True:
            parts = await self._parts(desk.notes, pages)
            try:
                done = [await self._one(desk, Order(document, part), pages) for part in parts]
            except TooManyPages:
                await self._split(desk.notes, parts, pages)
                continue
            return self._reading(desk.family, pages, done, self._tools.clock.monotonic() - began)

    async def _one(self, desk: Desk, order: Order, pages: int) -> tuple[Ticket, Stored]:
        before = max(order.part.first - 1, 0)
        with tempfile.TemporaryDirectory(prefix="penstock-mineru-") as folder:
            into = Path(folder) / "result"
            errand = Errand(desk, order, Position(before, pages))
            while True:
                ticket, parcel = await errand.run(into)
                try:
                    stored = await store_result(parcel, order.part, pages, desk.notebook)
                    break
                except ZipDamaged:
                    errand.bear_damage()
                finally:
                    parcel.close()
        read = before + stored.pages
        await desk.notebook.progress(read, max(pages, read))
        return ticket, stored

    async def _parts(self, notes: Notes, pages: int) -> list[Part]:
        """Their size is remembered: tasks are found again by their part, whatever the setting says tomorrow."""
        if not notes.pages_per_part and is_hosted(self._settings) and pages > self._settings.pages_per_part:
            await notes.split(self._settings.pages_per_part)
        size = notes.pages_per_part
        if not size or pages <= size:
            return [Part()]
        return [Part(first, min(first + size - 1, pages)) for first in range(1, pages + 1, size)]

    async def _split(self, notes: Notes, parts: list[Part], pages: int) -> None:
        """Into parts of the configured size, then into halves of what was too long."""
        longest = pages if parts[0].is_whole else parts[0].last - parts[0].first + 1
        if longest < 2:  # a picture, or a single page: there is nothing to split
            raise refused(-60006)
        half = math.ceil(longest / 2)
        await notes.split(min(half, self._settings.pages_per_part))
        log.info("mineru.split", pages=pages, pages_per_part=notes.pages_per_part)

    def _reading(self, family: Family, pages: int, done: list[tuple[Ticket, Stored]], seconds: float) -> Reading:
        texts = [stored.markdown for _, stored in done]
        whole = [text.strip() for text in texts if text is not None]
        count = pages or sum(stored.pages for _, stored in done)
        metadata = {
            "family": family.name,
            "version": family.version,
            "pages": count,
            "parts": len(done),
            "seconds": round(seconds, 3),
            "pages_missing": [number for _, stored in done for number in stored.missing],
        }
        markdown = "\n\n".join(filter(None, whole)) + "\n" if len(whole) == len(texts) else None
        return Reading(count, ",".join(ticket["id"] for ticket, _ in done), markdown, metadata)

    async def _count(self, document: Document) -> int:
        """0 for what has no pages of its own."""
        if document.media_type != _PDF:
            return 0
        return document.page_count or await self._tools.count_pages(document.path, document.media_type)

    async def _pinned(self) -> Family:
        async with self._probing:
            if self._family is None:
                self._family = await probe(self._web, self._settings)
                log.info("mineru.recognised", family=self._family.name, version=self._family.version)
            return self._family

    async def _is_another(self, family: Family) -> bool:
        """Ask the server once more what it is."""
        async with self._probing:
            if self._family is family:
                self._family = await probe(self._web, self._settings)
            return self._family is None or self._family.name != family.name
