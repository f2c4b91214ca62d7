"""How long another merchant's event waits while one merchant with fifty endpoints floods the outbox.

A flood of events, then one event of another merchant ten times a second: from its commit until its delivery row can be
seen. One relay, real servers.
"""

import asyncio
import json
import statistics
import time
from functools import partial

from bench import servers
from penstock.kernel import endpoint_backlog, webhooks
from penstock.kernel.db import Database, Tx, fetch_all
from penstock.kernel.deliveries import Receivers
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.reactions import Reactions
from penstock.kernel.relay import Outlets, Relay, RelaySettings

_ENDPOINTS = 50
_FLOOD = 10_000  # events
_PER_SECOND = 800
_SECONDS = 15
_MOST_WAITING = 2000


async def _nothing(*_: object) -> None: ...


async def _prepare(database: Database) -> None:
    async with database.transaction() as tx:
        for number in range(_ENDPOINTS):
            await webhooks.register(tx, webhooks.Registration("evil", f"https://example.com/{number}", (), "u"))
        await webhooks.register(tx, webhooks.Registration("calm", "https://example.com/", (), "u"))
        await tx.execute(
            "insert into endpoint_breakers (sink, merchant_id, failures, failing_since, paused_until)"
            " select 'webhook:' || endpoint_id, merchant_id, 9, now(), now() + interval '5 minutes'"
            " from webhook_endpoints where merchant_id = 'evil'"
        )


async def _flood(database: Database, begun: float) -> None:
    for number in range(_FLOOD // 40):
        await asyncio.sleep(max(0.0, begun + number * 40 / _PER_SECOND - time.monotonic()))
        async with database.transaction() as tx:
            events = (Event("upload.created", "upload", f"e{number}-{n}", merchant_id="evil") for n in range(40))
            await announce(tx, *events)


async def _calm(database: Database, begun: float) -> list[float]:
    waiting = []
    for number in range(_SECONDS * 10):
        await asyncio.sleep(max(0.0, begun + number / 10 - time.monotonic()))
        async with database.transaction() as tx:
            await announce(tx, Event("upload.created", "upload", f"calm{number}", merchant_id="calm"))
        waiting.append(asyncio.create_task(_until_seen(database, f"upload:calm{number}")))
    return await asyncio.gather(*waiting)


async def _until_seen(database: Database, key: str) -> float:
    begun = time.perf_counter()
    while not await _seen(database, key):  # noqa: ASYNC110  what is awaited is in the database
        await asyncio.sleep(0.02)
    return time.perf_counter() - begun


async def _seen(database: Database, key: str) -> bool:
    async with database.transaction() as tx:
        query = (
            "select 1 from outbox_events e join outbox_deliveries d using (event_id)"
            " where e.entity_type = 'upload' and e.entity_id = %s limit 1"
        )
        return bool(await fetch_all(tx, query, (key.partition(":")[2],)))


async def _measure(url: str) -> dict[str, float]:
    database, relays = Database(url, name="bench", size=8), Database(url, name="relay", size=2)
    await database.open()
    await relays.open()
    await _prepare(database)
    to = Receivers(Reactions(()), {}, webhooks.rows_for, _nothing, _nothing)
    stop = asyncio.Event()
    relay = Relay(relays, _outlets(to), RelaySettings())
    running = asyncio.create_task(relay.run(stop))
    begun = time.monotonic()
    flood = asyncio.create_task(_flood(database, begun))
    waits = sorted(await _calm(database, begun))
    stop.set()
    await asyncio.gather(flood, running)
    async with database.transaction() as tx:
        rows = await _count(tx)
    await database.close()
    await relays.close()
    return {
        "p50_s": round(statistics.median(waits), 3),
        "p95_s": round(waits[int(len(waits) * 0.95)], 3),
        "max_s": round(waits[-1], 3),
        **rows,
    }


def _outlets(to: Receivers) -> Outlets:
    return Outlets(to.publish, to.rows_for, _nothing, partial(endpoint_backlog.bound, most=_MOST_WAITING))


async def _count(tx: Tx) -> dict[str, int]:
    query = (
        "select (select count(*) from outbox_deliveries) as rows, (select count(*) from outbox_events"
        " where relayed_at is not null) as relayed"
    )
    return (await fetch_all(tx, query))[0]


def run() -> dict[str, object]:
    with servers.postgres() as url:
        return {"name": "relay_flood", "figures": asyncio.run(_measure(url))}


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))  # noqa: T201  its output is what it is run for
