"""The state behind a topic, read from PostgreSQL for clients whose place in the stream is lost.

After a Redis restart every client of a topic asks at once. One read serves all who asked before it began:
a read that had begun earlier might miss what the asker has already skipped.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.kernel import json
from penstock.kernel.db import Database, Tx
from penstock.kernel.streams.event import family

SnapshotProvider = Callable[[Tx, str], Awaitable[dict[str, Any]]]

_AT_ONCE = 4  # leave the pool to requests


class Snapshots:
    """The providers by topic family, e.g. {"dashboard": …, "job": …}."""

    def __init__(self, database: Database, providers: Mapping[str, SnapshotProvider]) -> None:
        self._database = database
        self._providers = providers
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._next: dict[str, asyncio.Task[bytes]] = {}

    def serves(self, topic: str) -> bool:
        return family(topic) in self._providers

    async def read(self, topic: str) -> bytes:
        """State not older than this call, as JSON."""
        upcoming = self._next.get(topic)
        if upcoming is None:
            upcoming = self._next[topic] = asyncio.create_task(self._read(topic))
        return await asyncio.shield(upcoming)

    async def _read(self, topic: str) -> bytes:
        async with self._places:
            del self._next[topic]  # who asks from here on gets a later read
            async with self._database.transaction() as tx:
                return json.dump_bytes(await self._providers[family(topic)](tx, topic))
