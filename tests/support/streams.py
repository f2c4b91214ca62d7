"""Event streams under test: facts in PostgreSQL, announced in Redis, and readers that collect what they see."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from penstock.kernel import json
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, Tx, fetch_all
from penstock.kernel.redis import Keys, Redis
from penstock.kernel.streams import (
    Notice,
    Request,
    Snapshots,
    StreamEvent,
    StreamHub,
    StreamPublisher,
    StreamReader,
    StreamSettings,
    Subscription,
)


async def facts_of(tx: Tx, topic: str) -> dict[str, Any]:
    """The state of a topic is the list of facts recorded under its name."""
    query = "select to_status from state_transitions where entity_type = 'test' and entity_id = %s order by id"
    return {"facts": [int(row["to_status"]) for row in await fetch_all(tx, query, [topic])]}


class World:
    """Records facts and announces them, as a use case and the relay would."""

    def __init__(self, database: Database, redis: Redis, keys: Keys, settings: StreamSettings) -> None:
        self.database = database
        self.redis = redis
        self.keys = keys
        self.settings = settings
        self.publisher = StreamPublisher(redis, keys, settings)

    async def record(self, topic: str, *facts: int) -> None:
        async with self.database.transaction() as tx, tx.cursor() as cursor:
            await cursor.executemany(
                "insert into state_transitions (entity_type, entity_id, to_status) values ('test', %s, %s)",
                [(topic, str(fact)) for fact in facts],
            )

    async def announce(self, topic: str, *facts: int) -> None:
        await self.publisher.publish([StreamEvent(fact, (topic,), "page_completed", {"n": fact}) for fact in facts])

    async def happen(self, topic: str, *facts: int) -> None:
        await self.record(topic, *facts)
        await self.announce(topic, *facts)

    def hub(self) -> StreamHub:
        reader = StreamReader(self.redis, self.keys, self.settings)
        snapshots = Snapshots(self.database, {"job": facts_of, "dashboard": facts_of})
        return StreamHub(reader, snapshots, self.settings, SystemClock())

    @asynccontextmanager
    async def started_hub(self):
        hub = self.hub()
        hub.start()
        try:
            yield hub
        finally:
            await hub.close()


async def take(subscription: Subscription, count: int, seconds: float = 8) -> list[Notice]:
    """The next `count` notices; more may come with the last batch. A short list after `seconds` of waiting."""
    taken: list[Notice] = []
    deadline = asyncio.get_running_loop().time() + seconds
    while len(taken) < count and (left := deadline - asyncio.get_running_loop().time()) > 0:
        batch = await subscription.take(left)
        if batch is None:
            break
        taken += batch
    return taken


async def opened(hub: StreamHub, request: Request) -> Subscription:
    """A subscription that is live: its first snapshot is read."""
    subscription = hub.subscribe(request)
    assert [notice.name for notice in await take(subscription, 1)] == ["snapshot"]
    assert await subscription.take(0.05) == []
    return subscription


def numbers(notices: list[Notice]) -> list[int]:
    return [json.loads(notice.data)["n"] for notice in notices if notice.name == "page_completed"]


def names(notices: list[Notice]) -> list[str]:
    return [notice.name for notice in notices]


def facts(notice: Notice) -> list[int]:
    assert notice.name == "snapshot"
    found: list[int] = json.loads(notice.data)["facts"]
    return found
