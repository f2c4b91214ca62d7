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
from penstock.kernel.streams.turns import MerchantTurns

SnapshotProvider = Callable[[Tx, str], Awaitable[dict[str, Any]]]

_AT_ONCE, _PER_MERCHANT = 6, 2  # leave the pool to requests, and places to other merchants


class Snapshots:
    """The providers by topic family, e.g. {"dashboard": …, "job": …}."""

    def __init__(self, database: Database, providers: Mapping[str, SnapshotProvider]) -> None:
        self._database = database
        self._providers = providers
        self._turns = MerchantTurns(_AT_ONCE, _PER_MERCHANT)
        self._next: dict[str, asyncio.Task[bytes]] = {}

    def serves(self, topic: str) -> bool:
        return family(topic) in self._providers

    async def read(self, topic: str, merchant: str | None = None) -> bytes:
        """State not older than this call, as JSON. The merchant is the one who asks."""
        upcoming = self._next.get(topic)
        if upcoming is None:
            upcoming = self._next[topic] = asyncio.create_task(self._read(topic, merchant))
        return await asyncio.shield(upcoming)

    async def _read(self, topic: str, merchant: str | None) -> bytes:
        async with self._turns.turn(merchant):
            del self._next[topic]  # who asks from here on gets a later read
            async with self._database.transaction() as tx:
                return json.dump_bytes(await self._providers[family(topic)](tx, topic))
