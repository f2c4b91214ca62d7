"""A notebook in a folder: what it was told outlives the process that told it."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstores import LocalStore
from penstock.pdf.pages.model import Page


class FolderNotebook:
    def __init__(self, folder: Path) -> None:
        self._store = LocalStore(folder)
        self._facts = folder / "facts.json"
        self.told: list[tuple[int, int]] = []

    @property
    def remembered(self) -> Mapping[str, Any]:
        return json.loads(self._facts.read_text()) if self._facts.exists() else {}

    async def remember(self, **facts: Any) -> None:
        await self._store.put("facts.json", json.dumps({**self.remembered, **facts}).encode())

    async def pages_done(self) -> frozenset[int]:
        return frozenset([int(Path(found.key).stem) async for found in self._store.list("pages")])

    async def add_page(self, page: Page) -> None:
        assert await self._store.put_if_absent(f"pages/{page.number}.json", msgspec.json.encode(page)), page.number

    async def add_image(self, name: str, data: bytes) -> str:
        await self._store.put(f"images/{name}", data)
        return f"images/{name}"

    async def progress(self, done: int, total: int) -> None:
        self.told.append((done, total))
        await asyncio.sleep(0)

    # What tests ask

    async def page(self, number: int) -> Page:
        return msgspec.json.decode(await self._store.get(f"pages/{number}.json"), type=Page)

    async def pages(self) -> list[Page]:
        return [await self.page(number) for number in sorted(await self.pages_done())]

    async def image(self, key: str) -> bytes | None:
        try:
            return await self._store.get(key)
        except PenstockError:
            return None

    async def everything(self) -> bytes:
        """All that was written down, for tests that look for what must not be there."""
        return b"\n".join([await self._store.get(found.key) async for found in self._store.list()])
