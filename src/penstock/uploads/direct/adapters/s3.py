"""A bucket that speaks S3's protocol: bytes come in parts that we sign one by one, and we put them together.

S3 has no generations: an object is told from another of the same name by when it was made and by its ETag. Nor does
it know the MD5 of what was put together from parts: it is computed here, from the bytes as they lie in the bucket.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.kernel.clock import Clock
from penstock.uploads.direct.adapters.threads import Threads
from penstock.uploads.direct.ports import ObjectFacts, Part, SignedStart
from penstock.uploads.direct.settings import DirectSettings

if TYPE_CHECKING:
    from penstock.uploads.direct.adapters.s3_calls import S3Calls

_CALLS_AT_ONCE = 8


class S3Bucket:
    """The `Bucket` and `PartBucket` of s3://."""

    def __init__(self, settings: DirectSettings, clock: Clock) -> None:
        self.name = settings.bucket
        self.part_bytes = int(settings.part_bytes)
        self._settings, self._clock = settings, clock
        self._threads = Threads(self._open, "bucket")
        self._signing, self._calling = self._threads.pool(1), self._threads.pool(_CALLS_AT_ONCE)

    def reference(self, found: ObjectFacts) -> str:
        return f"s3://{found.bucket}/{found.name}"

    async def sign_start(self, object_name: str, content_type: str, most_bytes: int) -> SignedStart | None:  # noqa: ARG002
        return None

    async def find(self, object_name: str) -> ObjectFacts | None:
        return await self._threads.run(self._calling, lambda calls: calls.find(object_name))

    async def md5_of(self, found: ObjectFacts) -> str | None:
        return found.md5_hex or await self._threads.run(self._calling, lambda calls: calls.md5_of(found))

    async def fetch(self, found: ObjectFacts, to: Path) -> None:
        await self._threads.run(self._calling, lambda calls: calls.fetch(found, to))

    async def move_aside(self, object_name: str, generation: str, to: str) -> None:
        await self._threads.run(self._calling, lambda calls: calls.move_aside(object_name, generation, to))

    async def begin_parts(self, object_name: str, content_type: str) -> str:
        return await self._threads.run(self._calling, lambda calls: calls.begin_parts(object_name, content_type))

    async def sign_part(self, object_name: str, multipart_id: str, number: int, size: int | None) -> SignedStart:
        lasts = self._settings.signed_url_ttl_seconds
        began = self._clock.now().replace(microsecond=0)
        url = await self._threads.run(
            self._signing, lambda calls: calls.sign_part(object_name, multipart_id, (number, size), lasts)
        )
        return SignedStart(url, {}, began + lasts)

    async def parts(self, object_name: str, multipart_id: str) -> Sequence[Part] | None:
        return await self._threads.run(self._calling, lambda calls: calls.parts(object_name, multipart_id))

    async def complete_parts(self, object_name: str, multipart_id: str, parts: Sequence[Part]) -> None:
        await self._threads.run(self._calling, lambda calls: calls.complete_parts(object_name, multipart_id, parts))

    async def abort_parts(self, object_name: str, multipart_id: str) -> None:
        await self._threads.run(self._calling, lambda calls: calls.abort_parts(object_name, multipart_id))

    async def abort_all_parts(self, object_name: str) -> None:
        await self._threads.run(self._calling, lambda calls: calls.abort_all_parts(object_name))

    async def close(self) -> None:
        await self._threads.close()

    def _open(self) -> "S3Calls":
        from penstock.uploads.direct.adapters.s3_calls import open_calls

        return open_calls(self._settings)
