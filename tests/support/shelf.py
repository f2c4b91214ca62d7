"""A bucket on a shelf: what somebody else's service does, as far as the domain asks for it."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct.ports import ObjectFacts, SignedStart

CONTENT = b"a film" * 1000


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class ShelfBucket:
    """`put` is what phones do; `is_away` makes every call fail."""

    def __init__(self, name: str = "shelf") -> None:
        self.name = name
        self.objects: dict[str, tuple[ObjectFacts, bytes]] = {}
        self.is_away = False
        self._generation = 1_700_000_000_000_000

    def put(self, name: str, content: bytes, content_type: str = "video/mp4") -> ObjectFacts:
        self._generation += 1
        now = datetime.now(UTC)
        facts = ObjectFacts(
            self.name, name, str(self._generation), len(content), content_type, md5_of(content), "AAAAAA==", "etag", now
        )
        self.objects[name] = (facts, content)
        return facts

    def reference(self, object_name: str) -> str:
        return f"gs://{self.name}/{object_name}"

    async def sign_start(self, object_name: str, content_type: str) -> SignedStart:
        self._there()
        headers = {"x-goog-resumable": "start", "content-type": content_type}
        return SignedStart(f"https://shelf/{object_name}?signed", headers, datetime.now(UTC) + timedelta(minutes=15))

    async def find(self, object_name: str) -> ObjectFacts | None:
        self._there()
        found = self.objects.get(object_name)
        return found and found[0]

    async def md5_of(self, found: ObjectFacts) -> str | None:
        return found.md5_hex

    async def fetch(self, found: ObjectFacts, to: Path) -> None:
        self._there()
        await asyncio.to_thread(to.write_bytes, self.objects[found.name][1])

    async def move_aside(self, object_name: str, generation: str, to: str) -> None:
        self._there()
        found = self.objects.get(object_name)
        if found and found[0].generation == generation:
            self.objects[to] = self.objects.pop(object_name)

    async def close(self) -> None:
        pass

    def _there(self) -> None:
        if self.is_away:
            raise PenstockError(error_codes.STORE_UNAVAILABLE)
