"""The provider that needs nobody else: the text layer as it is, scans by OCR, tables by the table finder."""

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Protocol

import penstock
from penstock.extraction.ports import Document, Notebook, Reading
from penstock.pdf.pages.images import ImageBytes
from penstock.pdf.pages.model import Page


class Reader(Protocol):
    """`penstock.pdf.PageReader`."""

    async def page_count(self, path: Path, media_type: str, tenant: str) -> int: ...

    def with_pictures(
        self, path: Path, media_type: str, count: int, skip: frozenset[int], *, tenant: str
    ) -> AsyncIterator[tuple[Page, dict[str, ImageBytes] | None]]:
        """As they get ready, those in `skip` left out, with their pictures by id."""


class LocalProvider:
    """Reads on this machine, without a network."""

    name = "local"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.version = penstock.__version__

    async def read(self, document: Document, notebook: Notebook) -> Reading:
        begun = time.monotonic()
        path, media_type, tenant = document.path, document.media_type, document.tenant
        total = document.page_count or await self._reader.page_count(path, media_type, tenant)
        done = await notebook.pages_done()
        count, recognised = len(done), 0
        await notebook.progress(count, total)
        async for page, pictures in self._reader.with_pictures(path, media_type, total, done, tenant=tenant):
            await _store_pictures(page, pictures or {}, notebook)
            await notebook.add_page(page)
            count += 1
            recognised += page.ocr_share > 0
            await notebook.progress(count, total)
        facts = {
            "seconds": round(time.monotonic() - begun, 3),
            "pages_recognised": recognised,
            "pages_resumed": len(done),
        }
        return Reading(total, f"local-{document.sha256[:16]}", metadata=facts)

    async def close(self) -> None:
        """The reader is its maker's to close."""


async def _store_pictures(page: Page, found: Mapping[str, ImageBytes], notebook: Notebook) -> None:
    """Named by their content: a logo that stands on every page is stored once. A picture's own page has none."""
    if not found:
        return
    keys = await notebook.add_images({picture.name: picture.data for picture in found.values()})
    for image in page.images:
        if image.id in found:
            image.key = keys[found[image.id].name]
