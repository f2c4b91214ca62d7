"""The notebook of the OCR stage over a folder, without a task: what tests of providers write into and look at."""

import os
import time
from pathlib import Path

from penstock.extraction.folder import Folder, StoreNotebook, pages_in_order
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstores import LocalStore
from penstock.pdf.pages.model import Page


class WatchedNotebook(StoreNotebook):
    """Remembers what progress it was told, and lets a test look at what is stored."""

    def __init__(self, path: Path) -> None:
        self.told: list[tuple[int, int]] = []
        self.store = LocalStore(path)
        super().__init__(Folder(self.store, 1, 1), time.monotonic_ns() + os.getpid(), self._told)

    async def _told(self, done: int, total: int) -> None:
        self.told.append((done, total))

    async def page(self, number: int) -> Page:
        return next(page for page in await self.pages() if page.number == number)

    async def pages(self) -> list[Page]:
        await self.flush()
        return [page async for page in pages_in_order(self._folder, self.parts)]

    async def numbers(self) -> set[int]:
        return {page.number for page in await self.pages()}

    async def image(self, key: str) -> bytes | None:
        try:
            return await self.store.get(key)
        except PenstockError:
            return None

    async def everything(self) -> bytes:
        """All that was written down, for tests that look for what must not be there."""
        await self.flush()
        return b"\n".join([await self.store.get(found.key) async for found in self.store.list()])


async def opened(path: Path) -> WatchedNotebook:
    """A new attempt, which finds what earlier ones left."""
    notebook = WatchedNotebook(path)
    await notebook.open()
    return notebook
