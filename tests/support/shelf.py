"""A bucket on a shelf: what somebody else's service does, as far as the domain asks for it."""

import asyncio
import base64
import hashlib
import json
import os
import pickle
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct.ports import ObjectFacts, SignedStart

CONTENT = b"a film" * 1000
SECRET = "5ec2e7" * 20


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def pushed(facts: ObjectFacts, event: str = "OBJECT_FINALIZE", message_id: str = "17", **changes: Any) -> bytes:
    """What Pub/Sub sends of an object; `changes` are of its description, None leaves something out."""
    assert facts.md5_hex is not None
    resource: dict[str, Any] = {
        "kind": "storage#object", "bucket": facts.bucket, "name": facts.name, "generation": facts.generation,
        "size": str(facts.size), "contentType": facts.content_type, "crc32c": "AAAAAA==", "etag": "CAE=",
        "md5Hash": base64.b64encode(bytes.fromhex(facts.md5_hex)).decode(), "timeCreated": "2026-11-15T10:00:00.000Z",
    }  # fmt: skip
    resource = {name: value for name, value in (resource | changes).items() if value is not None}
    message = {
        "data": base64.b64encode(json.dumps(resource).encode()).decode(),
        "messageId": message_id, "message_id": message_id,
        "attributes": {"eventType": event, "bucketId": facts.bucket, "objectId": facts.name},
    }  # fmt: skip
    return json.dumps({"subscription": "projects/p/subscriptions/s", "message": message}).encode()


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

    def reference(self, found: ObjectFacts) -> str:
        return f"gs://{found.bucket}/{found.name}"

    async def sign_start(self, object_name: str, content_type: str, most_bytes: int) -> SignedStart:
        self._there()
        headers = {"x-goog-resumable": "start", "content-type": content_type,
                   "x-goog-content-length-range": f"0,{most_bytes}"}  # fmt: skip
        return SignedStart(f"https://shelf/{object_name}?signed", headers, datetime.now(UTC) + timedelta(minutes=15))

    async def find(self, object_name: str) -> ObjectFacts | None:
        self._there()
        found = self.objects.get(object_name)
        return found and found[0]

    async def md5_of(self, found: ObjectFacts) -> str | None:
        return found.md5_hex

    async def fetch(self, found: ObjectFacts, to: Path) -> None:
        self._there()
        there = self.objects.get(found.name)
        if there is None or there[0].generation != found.generation:
            raise PenstockError(error_codes.NOT_FOUND, object=found.name)
        await asyncio.to_thread(to.write_bytes, there[1])

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


class FileShelf(ShelfBucket):
    """The same in a directory, for several processes: one file for each object, named by what is hashed of its name.

    Generations are times. Addresses that phones are given hold `SECRET`, which must be found nowhere else.
    """

    def __init__(self, root: Path, name: str = "shelf") -> None:
        super().__init__(name)
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, content: bytes, content_type: str = "video/mp4") -> ObjectFacts:
        self._generation = max(self._generation, time.time_ns() // 1000)
        facts = super().put(name, content, content_type)
        self._write(facts, content)
        return facts

    def kept(self) -> dict[str, ObjectFacts]:
        return {facts.name: facts for facts, _ in map(self._read, self._root.glob("*.object"))}

    async def sign_start(self, object_name: str, content_type: str, most_bytes: int) -> SignedStart:
        start = await super().sign_start(object_name, content_type, most_bytes)
        return replace(start, url=f"https://shelf/{object_name}?X-Goog-Signature={SECRET}")

    async def find(self, object_name: str) -> ObjectFacts | None:
        self._there()
        place = self._place(object_name)
        return self._read(place)[0] if place.exists() else None

    async def fetch(self, found: ObjectFacts, to: Path) -> None:
        self._there()
        await asyncio.to_thread(to.write_bytes, self._read(self._place(found.name))[1])

    async def move_aside(self, object_name: str, generation: str, to: str) -> None:
        found = await self.find(object_name)
        if found is not None and found.generation == generation:
            self._write(replace(found, name=to), self._read(self._place(object_name))[1])
            self._place(object_name).unlink(missing_ok=True)

    def _place(self, name: str) -> Path:
        return self._root / f"{hashlib.sha256(name.encode()).hexdigest()}.object"

    def _write(self, facts: ObjectFacts, content: bytes) -> None:
        place = self._place(facts.name)
        draft = place.with_suffix(f".{os.getpid()}")
        draft.write_bytes(pickle.dumps((facts, content)))
        draft.replace(place)

    def _read(self, place: Path) -> tuple[ObjectFacts, bytes]:
        found: tuple[ObjectFacts, bytes] = pickle.loads(place.read_bytes())
        return found
