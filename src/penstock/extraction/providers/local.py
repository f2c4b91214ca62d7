"""The provider that needs nobody else: the text layer as it is, scans by OCR, tables by the table finder."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import penstock
from penstock.extraction.ports import Document, Notebook, Reading
from penstock.pdf.pages.model import Page


class Reader(Protocol):
    """`penstock.pdf.PageReader`."""

    async def page_count(self, path: Path, media_type: str) -> int: ...

    def pages(self, path: Path, media_type: str, skip: frozenset[int]) -> AsyncIterator[Page]:
        """As they get ready, those in `skip` left out."""


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
