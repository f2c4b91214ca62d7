"""A webhook endpoint that fails again and again is not called for a while; its events wait and none is lost."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.outlets import receivers, relay_all
from tests.support.webhook_receiver import running_receiver

from penstock.kernel import json, webhooks
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.deliveries import Deliveries, DeliverySettings, dead_letters
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.webhooks import Registration, WebhookCaller, WebhookSettings

LOCAL = WebhookSettings(allow_private=True, timeout_seconds=timedelta(seconds=0.5))
THREE = DeliverySettings(pause_after_failures=3, max_attempts=10)


class Town:
    """A merchant with one endpoint, and workers that come and go."""

    def __init__(self, database: Database, caller: WebhookCaller) -> None:
        self.database = database
        self.to = receivers(webhook=caller.find)
        self.endpoint_id: Any = None

    async def register(self, url: str, *types: str) -> None:
        async with self.database.transaction() as tx:
            made = await webhooks.register(tx, Registration("m1", url, types or ("job.*",), "u1"))
        self.endpoint_id = made["endpoint_id"]

    async def happen(self, *entities: str) -> None:
        async with self.database.transaction() as tx:
            await announce(tx, *(Event("job.made", "job", each, {}, merchant_id="m1") for each in entities))

    async def deliver(self, settings: DeliverySettings = THREE) -> None:
        """By a worker that was just started, to whom whatever waited for an attempt is due."""
        await relay_all(self.database, self.to)
        async with self.database.transaction() as tx:
            await tx.execute("update outbox_deliveries set due_at = now() where due_at > now()")
        await Deliveries(self.database, self.to, settings, owner="w").drain()

    async def pause_is_over(self) -> None:
        async with self.database.transaction() as tx:
            await tx.execute("update endpoint_breakers set paused_until = now()")

    async def shown(self) -> tuple[str, int]:
        async with self.database.transaction() as tx:
            [row] = await webhooks.endpoints(tx, "m1")
        assert (row["paused_until"] is not None) == (row["state"] == "paused")
        return row["state"], row["failures"]

    async def told(self) -> list[str]:
        async with self.database.transaction() as tx:
            query = "select event_type from outbox_events where event_type ~ 'paused|resumed' order by event_id"
            return [row["event_type"] for row in await fetch_all(tx, query)]


@pytest.fixture
async def receiver():
    async with running_receiver() as made:
        yield made


@pytest.fixture
async def town(database, receiver):
    caller = WebhookCaller(database, LOCAL, SystemClock())
    made = Town(database, caller)
    await made.register(receiver.url)
    yield made
    await caller.close()


class TestPausing:
    async def test_after_so_many_failures_in_a_row_no_worker_calls_it(self, town, receiver):
        receiver.status = 500
        await town.happen("a", "b", "c", "d", "e")
        for _ in range(6):
            await town.deliver()
        assert len(receiver.calls) == 5, "all five were sent at once, before any of them had failed"
        assert await town.shown() == ("paused", 5)
        assert await town.told() == ["webhook.paused"]

    async def test_an_endpoint_that_has_just_failed_gets_one_call_at_a_time(self, town, receiver):
        receiver.status = 500
        await town.happen("a")
        await town.deliver()
        await town.happen("b", "c", "d", "e")
        await town.deliver()
        assert await town.shown() == ("paused", 3)
        assert len(receiver.calls) == 3

    async def test_a_success_between_failures_begins_the_count_anew(self, town, receiver):
        for status in (500, 500, 200, 500, 500):
            receiver.status = status
            await town.happen("a")
            await town.deliver()
        assert await town.shown() == ("failing", 2)
        assert await town.told() == []

    async def test_a_time_out_counts(self, town, receiver):
        receiver.stall = True
        await town.happen("a")
        await town.deliver()
        assert await town.shown() == ("failing", 1)


class TestProbing:
    async def _paused(self, town: Town, receiver) -> None:
        receiver.status = 500
        await town.happen("a")
        for _ in range(3):
            await town.deliver()
        await town.happen("a", "b", "c")
        receiver.calls.clear()

    async def test_after_the_pause_one_event_is_tried_and_a_failure_pauses_it_for_longer(self, town, receiver):
        await self._paused(town, receiver)
        await town.pause_is_over()
        await town.deliver()
        await town.deliver()
        assert len(receiver.calls) == 1
        assert await town.shown() == ("paused", 4)
        async with town.database.transaction() as tx:
            [row] = await fetch_all(tx, "select extract(epoch from paused_until - now()) as s from endpoint_breakers")
        assert 55 < row["s"] < 80
        assert await town.told() == ["webhook.paused"], "once, not at every probe"

    async def test_when_it_answers_everything_that_waited_comes_in_order(self, town, receiver):
        await self._paused(town, receiver)
        receiver.status = 204
        await town.pause_is_over()
        await town.deliver()
        heard = _entities(receiver)
        assert sorted(heard) == ["a", "a", "b", "c"]
        ids = [
            headers["webhook-id"] for (headers, _), entity in zip(receiver.calls, heard, strict=True) if entity == "a"
        ]
        assert ids == sorted(ids), "the events of one subject keep their order"
        assert await town.shown() == ("active", 0)
        assert await town.told() == ["webhook.paused", "webhook.resumed"]

    async def test_waiting_for_a_paused_endpoint_counts_no_attempts(self, town, receiver):
        await self._paused(town, receiver)
        for _ in range(5):
            await town.deliver()
        async with town.database.transaction() as tx:
            rows = await fetch_all(tx, "select attempts, dead_at from outbox_deliveries order by event_id")
        assert [(row["attempts"], row["dead_at"]) for row in rows] == [(3, None), (0, None), (0, None), (0, None)]

    async def test_what_waited_longer_than_all_attempts_would_take_is_a_dead_letter(self, town, receiver):
        await self._paused(town, receiver)
        await relay_all(town.database, town.to)
        async with town.database.transaction() as tx:
            await tx.execute("update outbox_deliveries set created_at = now() - interval '1 day'")
        await town.pause_is_over()
        await town.deliver()
        async with town.database.transaction() as tx:
            dead = await dead_letters(tx)
        assert len(dead) == 4
        assert dead[0]["last_error"] == "not called: 4 calls in a row failed, the last with SinkRefused: answered 500"

    async def test_flapping_tells_the_merchant_once_an_hour(self, town, receiver):
        for _ in range(3):
            await self._paused(town, receiver)
            receiver.status = 204
            await town.pause_is_over()
            await town.deliver()
        assert await town.told() == ["webhook.paused", "webhook.resumed"]

    async def test_a_removed_endpoint_leaves_nothing_behind(self, town, receiver):
        await self._paused(town, receiver)
        async with town.database.transaction() as tx:
            await webhooks.remove(tx, town.endpoint_id, "m1")
        await town.deliver()
        async with town.database.transaction() as tx:
            assert await fetch_all(tx, "select 1 from endpoint_breakers") == []
            assert await fetch_all(tx, "select 1 from outbox_deliveries where done_at is null") == []
        assert receiver.calls == []


def _entities(receiver) -> list[str]:
    return [json.loads(body)["entity"]["id"] for _, body in receiver.calls]
