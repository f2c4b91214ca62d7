"""A bucket that speaks Google's protocol: Google's own, or the embedded one at DIRECT_ENDPOINT.

Calls are made in threads, for the client library blocks; nothing is imported or asked before the first of them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from penstock.kernel.clock import Clock
from penstock.uploads.direct.adapters.signers import Signer
from penstock.uploads.direct.ports import ObjectFacts, SignedStart
from penstock.uploads.direct.settings import DirectSettings

if TYPE_CHECKING:
    from penstock.uploads.direct.adapters.gcs_calls import GcsCalls

R = TypeVar("R")
_CALLS_AT_ONCE = 8


class GcsBucket:
    """The `Bucket` of gs://."""

    def __init__(self, settings: DirectSettings, clock: Clock, signer: Signer) -> None:
        self.name = settings.bucket
        self._settings, self._clock, self._signer = settings, clock, signer
        self._signing = ThreadPoolExecutor(signer.threads, "bucket-sign")
        self._calling = ThreadPoolExecutor(_CALLS_AT_ONCE, "bucket-call")
        self._building = Lock()
        self._calls: GcsCalls | None = None

    def reference(self, object_name: str) -> str:
        return f"gs://{self.name}/{object_name}"

    async def sign_start(self, object_name: str, content_type: str) -> SignedStart:
        lasts: timedelta = self._settings.signed_url_ttl_seconds
        began = self._clock.now().replace(microsecond=0)  # the signature's own date has no fractions
        url, headers = await self._run(
            self._signing, lambda: self._ready().sign_start(object_name, content_type, lasts)
        )
        return SignedStart(url, headers, began + lasts)

    async def find(self, object_name: str) -> ObjectFacts | None:
        return await self._run(self._calling, lambda: self._ready().find(object_name))

    async def fetch(self, found: ObjectFacts, to: Path) -> None:
        await self._run(self._calling, lambda: self._ready().fetch(found.name, int(found.generation), to))

    async def move_aside(self, object_name: str, generation: str, to: str) -> None:
        await self._run(self._calling, lambda: self._ready().move_aside(object_name, int(generation), to))

    async def close(self) -> None:
        for pool in (self._signing, self._calling):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        if self._calls is not None:
            self._calls.close()

    async def _run(self, pool: ThreadPoolExecutor, call: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    def _ready(self) -> "GcsCalls":
        """In a thread: the library takes half a second to import, and default credentials may ask the network."""
        if self._calls is None:
            with self._building:
                if self._calls is None:
                    from penstock.uploads.direct.adapters.gcs_calls import open_calls

                    self._calls = open_calls(self.name, self._settings.endpoint.rstrip("/"), self._signer)
        return self._calls
