"""A bucket that speaks Google's protocol: Google's own, or the embedded one at DIRECT_ENDPOINT."""

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.kernel.clock import Clock
from penstock.kernel.together import Together
from penstock.uploads.direct.adapters.signers import Signer
from penstock.uploads.direct.adapters.threads import Threads
from penstock.uploads.direct.ports import ObjectFacts, SignedStart
from penstock.uploads.direct.settings import DirectSettings

if TYPE_CHECKING:
    from penstock.uploads.direct.adapters.gcs_calls import GcsCalls

_CALLS_AT_ONCE = 8


class GcsBucket:
    """The `Bucket` of gs://."""

    def __init__(self, settings: DirectSettings, clock: Clock, signer: Signer) -> None:
        self.name = settings.bucket
        self._settings, self._clock, self._signer = settings, clock, signer
        self._threads = Threads(self._open, "bucket")
        self._signing, self._calling = self._threads.pool(signer.threads), self._threads.pool(_CALLS_AT_ONCE)
        self._starts = Together(self._sign_each, most=signer.in_a_row, at_once=signer.threads)

    def reference(self, found: ObjectFacts) -> str:
        return f"gs://{found.bucket}/{found.name}"

    async def sign_start(self, object_name: str, content_type: str, most_bytes: int) -> SignedStart:
        lasts = self._settings.signed_url_ttl_seconds
        began = self._clock.now().replace(microsecond=0)  # the signature's own date has no fractions
        url, headers = await self._starts.ask((object_name, content_type, most_bytes))
        return SignedStart(url, headers, began + lasts)

    async def _sign_each(self, wanted: list[tuple[str, str, int]]) -> list[tuple[str, dict[str, str]]]:
        lasts = self._settings.signed_url_ttl_seconds
        return await self._threads.run(self._signing, lambda calls: [calls.sign_start(*one, lasts) for one in wanted])

    async def find(self, object_name: str) -> ObjectFacts | None:
        return await self._threads.run(self._calling, lambda calls: calls.find(object_name))

    async def md5_of(self, found: ObjectFacts) -> str | None:
        return found.md5_hex  # who composed an object of others has lost it, and shall not get round the check

    async def fetch(self, found: ObjectFacts, to: Path) -> None:
        await self._threads.run(self._calling, lambda calls: calls.fetch(found.name, int(found.generation), to))

    async def move_aside(self, object_name: str, generation: str, to: str) -> None:
        await self._threads.run(self._calling, lambda calls: calls.move_aside(object_name, int(generation), to))

    async def close(self) -> None:
        await self._threads.close()

    def _open(self) -> "GcsCalls":
        from penstock.uploads.direct.adapters.gcs_calls import open_calls

        return open_calls(self.name, self._settings.endpoint.rstrip("/"), self._signer)
