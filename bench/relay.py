"""Draining the outbox to Redis Streams, against the barest loop that could do it.

The bare loop reads events in order, writes them to one stream with a plain pipeline and marks them, in the same batch
size: no slots, no order keys, no receivers, no second relay, no repeats dropped, one topic instead of two.
"""

import asyncio
import json
import time

import psycopg

from bench import servers
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.events import slot_of
from penstock.kernel.outbox import stored
from penstock.kernel.redis import Keys, Redis, connect
from penstock.kernel.relay import Outlets, Relay, RelaySettings
from penstock.kernel.streams import StreamEvent, StreamPublisher, StreamSettings

_BATCH = 500


def _fill(url: str, events: int, entities: int) -> None:
    """Events of many entities, interleaved, as a busy system writes them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate outbox_events cascade")
        columns = "event_type, entity_type, entity_id, merchant_id, order_key, slot, notice, payload"
        copy = f"copy outbox_events ({columns}) from stdin"
        with connection.cursor() as cursor, cursor.copy(copy) as rows:
            for number in range(events):
                entity = f"e{number % entities}"
                key = f"page:{entity}"
                payload = json.dumps({"from": "AI_PROCESSING", "to": "AI_COMPLETED", "trigger": "bench", "n": number})
                rows.write_row(
                    ("page.ai_completed", "page", entity, "m1", key, slot_of(key), "page_completed", payload)
                )
        connection.execute("vacuum analyze outbox_events")


async def _relay(url: str, redis: Redis, relays: int) -> float:
    database = Database(url, name="bench", size=relays + 1)
    await database.open()
    publisher = StreamPublisher(redis, Keys("bench"), StreamSettings())

    async def publish(events) -> None:
        await publisher.publish(
            [
                StreamEvent(
                    each.event_id, ("dashboard", "dashboard:m1"), "page_completed", dict(each.event.payload), "m1"
                )
                for each in events
            ]
        )

    async def receivers(_tx, _events) -> list:
        return []

    async def wake(_slot: int) -> None: ...

    async def drain() -> None:
        relay = Relay(database, Outlets(publish, receivers, wake), RelaySettings(batch=_BATCH))
        while await relay.relay_once():
            pass

    begun = time.perf_counter()
    await asyncio.gather(*(drain() for _ in range(relays)))
    elapsed = time.perf_counter() - begun
    await database.close()
    return elapsed


async def _bare(url: str, redis: Redis) -> float:
    database = Database(url, name="bare", size=1)
    await database.open()
    begun = time.perf_counter()
    while True:
        async with database.transaction() as tx:
            rows = await fetch_all(
                tx, "select * from outbox_events where relayed_at is null order by event_id limit %s", (_BATCH,)
            )
            if not rows:
                break
            pipeline = redis.pipeline(transaction=False)
            for row in rows:
                event = stored(row)
                pipeline.xadd("bare", {"d": json.dumps(dict(event.event.payload))}, maxlen=2000)
            await pipeline.execute()
            await tx.execute(
                "update outbox_events set relayed_at = now() where event_id = any(%s)",
                ([row["event_id"] for row in rows],),
            )
    elapsed = time.perf_counter() - begun
    await database.close()
    return elapsed


async def _measure(url: str, redis_url: str, events: int) -> dict[str, float]:
    redis = connect(redis_url, timeout_seconds=10)
    took: dict[str, float] = {}
    for name, run_ in (
        ("bare", lambda: _bare(url, redis)),
        ("one_relay", lambda: _relay(url, redis, 1)),
        ("four_relays", lambda: _relay(url, redis, 4)),
    ):
        await asyncio.to_thread(_fill, url, events, 400)
        took[name] = await run_()
    await redis.aclose()
    return {name: events / seconds for name, seconds in took.items()}


def run(events: int = 30_000) -> dict[str, object]:
    with servers.postgres() as url, servers.redis() as redis_url:
        rates = asyncio.run(_measure(url, redis_url, events))
    return {
        "name": "relay",
        "ratios": {"vs_bare_loop": round(rates["one_relay"] / rates["bare"], 3)},
        "figures": {f"{name}_events_per_s": round(rate) for name, rate in rates.items()},
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))  # noqa: T201  its output is what it is run for
