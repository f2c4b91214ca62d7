"""A Redis that answers but refuses to write (full, disk trouble, read-only) is waited for, like one that is away."""

import asyncio

import pytest
from redis.exceptions import ResponseError

from penstock.bootstrap import load_settings, started
from penstock.kernel.db import fetch_all
from penstock.kernel.events import Event, StoredEvent
from penstock.kernel.outbox import announce
from penstock.kernel.reactions import Reaction
from penstock.kernel.redis import RedisAway
from penstock.worker import run_scheduler, run_worker


async def ignore(tx, event: StoredEvent) -> None: ...


@pytest.fixture
async def parts(monkeypatch, database, database_url, redis_server, redis_client, tmp_path):
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", database_url)
    monkeypatch.setenv("PENSTOCK_REDIS_URL", redis_server.url)
    monkeypatch.setenv("PENSTOCK_STORE_URL", (tmp_path / "store").as_uri())
    monkeypatch.setenv("GW_HEARTBEAT_INTERVAL_SEC", "0.1")
    async with started(load_settings(), role="worker", reactions=[Reaction("ignore", "*", ignore)]) as opened:
        yield opened


@pytest.fixture
async def full(redis_client):
    """No room for anything new."""
    await redis_client.config_set("maxmemory", "1")
    yield
    await redis_client.config_set("maxmemory", "0")


async def write(parts) -> None:
    async with parts.database.transaction() as tx:
        await announce(tx, Event("job.rejected", "job", "j1", merchant_id="m1", notice="job_failed"))


class TestFull:
    async def test_a_refusal_to_write_costs_an_event_no_attempt(self, parts, full):
        await write(parts)
        with pytest.raises(RedisAway):
            await parts.relay().relay_once()
        async with parts.database.transaction() as tx:
            [row] = await fetch_all(tx, "select * from outbox_events")
        assert (row["attempts"], row["retry_at"], row["relayed_at"]) == (0, None, None)

    async def test_no_role_ends_and_all_is_delivered_when_there_is_room_again(self, parts, redis_client, full):
        stop = asyncio.Event()
        roles = [asyncio.create_task(run(parts, stop)) for run in (run_worker, run_scheduler)]
        await write(parts)
        await asyncio.sleep(1.0)
        assert not any(role.done() for role in roles)
        await redis_client.config_set("maxmemory", "0")
        async with asyncio.timeout(10):
            while not await self._delivered(parts):
                await asyncio.sleep(0.05)
        stop.set()
        await asyncio.gather(*roles)

    async def _delivered(self, parts) -> bool:
        async with parts.database.transaction() as tx:
            rows = await fetch_all(
                tx,
                "select 1 from outbox_deliveries join outbox_events using (event_id)"
                " where done_at is not null and event_type = 'job.rejected'",
            )
        return bool(rows)


class TestOneTopic:
    async def test_a_key_that_is_no_stream_is_that_events_own_trouble(self, parts, redis_client):
        await redis_client.set(parts.keys.stream("dashboard:m1"), "not a stream")
        await write(parts)
        await parts.relay().relay_once()
        async with parts.database.transaction() as tx:
            [row] = await fetch_all(tx, "select * from outbox_events")
        assert (row["attempts"], row["relayed_at"]) == (1, None)
        assert ResponseError.__name__ in row["last_error"]
