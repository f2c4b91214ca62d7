"""A worker told to stop leaves within its time, whatever its receivers do, and frees what it could not finish."""

import asyncio

import pytest

from penstock.bootstrap import load_settings, started
from penstock.kernel.db import fetch_one
from penstock.kernel.events import Event, StoredEvent
from penstock.kernel.outbox import announce
from penstock.worker import run_worker


class Slow:
    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.called = asyncio.Event()

    def wants(self, event_type: str) -> bool:
        return True

    async def send(self, event: StoredEvent) -> None:
        self.called.set()
        await asyncio.sleep(self.seconds)


@pytest.fixture
def environment(monkeypatch, database_url, redis_server, redis_client, tmp_path):
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", database_url)
    monkeypatch.setenv("PENSTOCK_REDIS_URL", redis_server.url)
    monkeypatch.setenv("PENSTOCK_STORE_URL", (tmp_path / "store").as_uri())
    monkeypatch.setenv("PENSTOCK_SHUTDOWN_SECONDS", "1")


async def stopped_while_calling(slow: Slow) -> tuple[float, dict]:
    """How long the worker took to leave, and what became of the delivery."""
    async with started(load_settings(), role="worker", plugins={"slow": slow}) as parts:
        async with parts.database.transaction() as tx:
            await announce(tx, Event("thing.happened", "thing", "e"))
        await parts.relay().relay_once()
        stop = asyncio.Event()
        running = asyncio.create_task(run_worker(parts, stop))
        async with asyncio.timeout(5):
            await slow.called.wait()
        began = asyncio.get_running_loop().time()
        stop.set()
        async with asyncio.timeout(20):
            await running
        took = asyncio.get_running_loop().time() - began
        async with parts.database.transaction() as tx:
            row = await fetch_one(tx, "select * from outbox_deliveries")
    assert row is not None
    return took, row


class TestStopping:
    async def test_a_call_that_hangs_is_cut_short_and_its_row_is_free(self, environment):
        took, row = await stopped_while_calling(Slow(25))
        assert took < 1.5
        assert (row["done_at"], row["leased_until"], row["attempts"], row["lease_count"]) == (None, None, 0, 0)

    async def test_a_call_that_ends_in_time_is_finished(self, environment):
        took, row = await stopped_while_calling(Slow(0.4))
        assert took < 1.5
        assert row["done_at"] is not None
