"""The provider that needs nobody else: the text layer as it is, scans by OCR, tables by the table finder."""

import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import penstock
from penstock.extraction.ports import Document, Notebook, Reading
from penstock.pdf.pages.images import ImageBytes
from penstock.pdf.pages.model import Page

_PDF = "application/pdf"


class Reader(Protocol):
    """`penstock.pdf.PageReader`."""

    async def page_count(self, path: Path, media_type: str) -> int: ...

    def pages(self, path: Path, media_type: str, skip: frozenset[int]) -> AsyncIterator[Page]:
        """As they get ready, those in `skip` left out."""

    async def images(self, path: Path, page: Page) -> dict[str, ImageBytes]: ...


class LocalProvider:
    """Reads on this machine, without a network."""

    name = "local"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.version = penstock.__version__

    async def read(self, document: Document, notebook: Notebook) -> Reading:
        begun = time.monotonic()
        total = await self._reader.page_count(document.path, document.media_type)
        done = await notebook.pages_done()
        count, recognised = len(done), 0
        await notebook.progress(count, total)
        async for page in self._reader.pages(document.path, document.media_type, done):
            await self._store_images(document, page, notebook)
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

    async def _store_images(self, document: Document, page: Page, notebook: Notebook) -> None:
        """Named by their content: a logo that stands on every page is stored once. A picture's own page has none."""
        if document.media_type != _PDF or not page.images:
            return
        found = await self._reader.images(document.path, page)
        for image in page.images:
            if image.id in found:
                data, kind = found[image.id].data, found[image.id].media_type.removeprefix("image/")
                name = f"{hashlib.sha256(data).hexdigest()[:32]}.{kind.replace('jpeg', 'jpg')}"
                image.key = await notebook.add_image(name, data)

    async def close(self) -> None:
        """The reader is its maker's to close."""
