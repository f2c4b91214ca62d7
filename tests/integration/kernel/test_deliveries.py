"""Deliveries: reactions take effect once, sinks hear at least once, in order; what cannot work is given up."""

import asyncio
from datetime import timedelta

import pytest
from tests.support.outlets import receivers, relay_all

from penstock.kernel import error_codes, leases
from penstock.kernel.db import Database, fetch_all, fetch_one
from penstock.kernel.deliveries import Deliveries, DeliverySettings, dead_letters, send_again
from penstock.kernel.delivery_order import DELIVERIES
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event, StoredEvent
from penstock.kernel.outbox import announce
from penstock.kernel.reactions import Reaction, Reactions

QUICK = DeliverySettings(max_attempts=3, handler_seconds=timedelta(seconds=0.5))


async def write(database: Database, entity: str, *numbers: int, merchant: str | None = None) -> None:
    async with database.transaction() as tx:
        events = (Event("thing.happened", "thing", entity, {"n": n}, merchant_id=merchant) for n in numbers)
        await announce(tx, *events)


async def record(tx, event: StoredEvent) -> None:
    """A handler whose effect can be counted."""
    await tx.execute(
        "insert into effects (entity, n) values (%s, %s)", (event.event.entity_id, event.event.payload["n"])
    )


@pytest.fixture(autouse=True)
async def _effects(database: Database):
    async with database.transaction() as tx:
        await tx.execute("create table if not exists effects (id bigserial, entity text, n int)")


async def effects(database: Database) -> dict[str, list[int]]:
    async with database.transaction() as tx:
        rows = await fetch_all(tx, "select entity, array_agg(n order by id) as ns from effects group by entity")
    return {row["entity"]: row["ns"] for row in rows}


async def hurry(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute("update outbox_deliveries set due_at = now() - interval '1 second' where due_at > now()")


class TestReacting:
    async def test_several_workers_take_effect_once_and_in_order(self, database):
        to = receivers(Reaction("record", "thing.*", record))
        for n in range(15):
            for entity in "abcdef":
                await write(database, entity, n)
        await relay_all(database, to)
        workers = [Deliveries(database, to, QUICK, owner=f"w{n}") for n in range(4)]
        for _ in range(20):
            await asyncio.gather(*(worker.drain() for worker in workers))
        assert await effects(database) == {entity: list(range(15)) for entity in "abcdef"}

    async def test_a_failing_handler_leaves_no_trace_and_is_tried_again_before_later_events(self, database):
        broken = True

        async def handle(tx, event: StoredEvent) -> None:
            await record(tx, event)
            if broken and event.event.entity_id == "bad":
                raise RuntimeError("not yet")

        to = receivers(Reaction("record", "*", handle))
        await write(database, "bad", 1, 2)
        await write(database, "good", 1)
        await relay_all(database, to)
        worker = Deliveries(database, to, QUICK, owner="w")
        await worker.drain()
        assert await effects(database) == {"good": [1]}
        broken = False
        await hurry(database)
        await worker.drain()
        assert await effects(database) == {"good": [1], "bad": [1, 2]}

    async def test_the_effect_and_the_mark_are_one_transaction(self, database):
        seen: list[object] = []

        async def handle(tx, event: StoredEvent) -> None:
            row = await fetch_one(tx, "select done_at from outbox_deliveries where event_id = %s", (event.event_id,))
            seen.append(row["done_at"])

        to = receivers(Reaction("handle", "*", handle))
        await write(database, "e", 1)
        await relay_all(database, to)
        await Deliveries(database, to, QUICK, owner="w").drain()
        assert seen != []
        assert None not in seen, "only the transaction that marks the delivery can see the mark already"

    async def test_after_the_last_attempt_it_is_a_dead_letter_and_can_be_sent_again(self, database):
        broken = True

        async def handle(tx, event: StoredEvent) -> None:
            if broken and event.event.payload["n"] == 1:
                raise RuntimeError("never")
            await record(tx, event)

        to = receivers(Reaction("record", "*", handle))
        await write(database, "e", 1, 2, merchant="m1")
        await relay_all(database, to)
        worker = Deliveries(database, to, QUICK, owner="w")
        for _ in range(4):
            await worker.drain()
            await hurry(database)
        assert await effects(database) == {"e": [2]}
        async with database.transaction() as tx:
            [dead] = await dead_letters(tx)
            assert await dead_letters(tx, merchant_id="other") == []
            assert dead["last_error"] == "RuntimeError: never"
            with pytest.raises(PenstockError) as refused:
                await send_again(tx, dead["delivery_id"], merchant_id="other")
            assert refused.value.code is error_codes.NOT_FOUND
            broken = False
            await send_again(tx, dead["delivery_id"], merchant_id="m1")
        await worker.drain()
        assert await effects(database) == {"e": [2, 1]}

    async def test_a_handler_that_hangs_is_stopped(self, database):
        async def hang(tx, event) -> None:
            await asyncio.sleep(60)

        to = receivers(Reaction("hang", "*", hang))
        await write(database, "e", 1)
        await relay_all(database, to)
        async with asyncio.timeout(5):
            await Deliveries(database, to, QUICK, owner="w").drain()
        async with database.transaction() as tx:
            row = await fetch_one(tx, "select attempts, last_error from outbox_deliveries")
        assert row["attempts"] == 1
        assert row["last_error"].startswith("TimeoutError")

    async def test_an_event_whose_handler_kills_its_worker_each_time_is_given_up(self, database):
        to = receivers(Reaction("record", "*", record))
        await write(database, "e", 1)
        await relay_all(database, to)
        worker = Deliveries(database, to, QUICK, owner="w")
        for _ in range(QUICK.max_attempts):
            async with database.transaction() as tx:
                assert await leases.claim(tx, DELIVERIES, owner="dies", ttl=timedelta(seconds=-1))
            assert await worker.free_expired() == 1
        await worker.drain()
        async with database.transaction() as tx:
            [dead] = await dead_letters(tx)
        assert dead["last_error"] == "the worker died 3 times while handling this"
        assert await effects(database) == {}

    async def test_a_row_that_another_worker_took_over_takes_no_second_effect(self, database):
        entered, go_on = asyncio.Event(), asyncio.Event()

        async def slow(tx, event: StoredEvent) -> None:
            await record(tx, event)

        class SlowStart(Deliveries):
            async def _deliver(self, lease, event) -> None:
                entered.set()
                await go_on.wait()
                await super()._deliver(lease, event)

        to = receivers(Reaction("record", "*", slow))
        await write(database, "e", 1)
        await relay_all(database, to)
        paused = asyncio.create_task(SlowStart(database, to, QUICK, owner="paused").drain())
        await entered.wait()
        async with database.transaction() as tx:
            await tx.execute("update outbox_deliveries set leased_until = now() - interval '1 s'")
        other = Deliveries(database, to, QUICK, owner="other")
        await other.free_expired()
        await other.drain()
        go_on.set()
        await paused
        assert await effects(database) == {"e": [1]}

    @pytest.mark.parametrize("text", ["a \x00 byte", "half a pair \ud800"])
    async def test_whatever_a_handler_says_in_its_failure_it_is_recorded(self, database, text):
        async def handle(tx, event) -> None:
            raise ValueError(text)

        assert (await self._after_one_attempt(database, handle)).startswith("ValueError: ")

    async def test_a_cancellation_inside_a_handler_is_a_failure_and_does_not_end_the_worker(self, database):
        async def handle(tx, event) -> None:
            inner = asyncio.ensure_future(asyncio.sleep(60))
            inner.cancel()
            await inner

        assert (await self._after_one_attempt(database, handle)).startswith("CancelledError")

    async def test_a_handler_that_lost_a_lease_of_its_own_has_failed(self, database):
        async def handle(tx, event) -> None:
            raise PenstockError(error_codes.LEASE_LOST, table="harvest_tasks", key="7")

        assert (await self._after_one_attempt(database, handle)).startswith("PenstockError: LEASE_LOST")

    async def test_a_failure_after_another_worker_took_over_changes_nothing(self, database):
        class Overtaken(Deliveries):
            async def _hand_over(self, lease, event, sink) -> None:
                async with database.transaction() as tx:
                    await leases.give_back(tx, DELIVERIES, [lease])
                raise RuntimeError("too slow, and wrong")

        to = receivers(Reaction("record", "*", record))
        await write(database, "e", 1)
        await relay_all(database, to)
        overtaken = Overtaken(database, to, QUICK, owner="w")
        [(lease, event)] = await overtaken._pumps[0]._claim(1)
        await overtaken._deliver(lease, event)
        await Deliveries(database, to, QUICK, owner="other").drain()
        assert await effects(database) == {"e": [1]}

    async def _after_one_attempt(self, database: Database, handle) -> str:
        """What is on record once a worker has tried."""
        to = receivers(Reaction("handle", "*", handle))
        await write(database, "e", 1)
        await relay_all(database, to)
        await Deliveries(database, to, QUICK, owner="w").drain()
        async with database.transaction() as tx:
            row = await fetch_one(tx, "select attempts, last_error, leased_until from outbox_deliveries")
        assert (row["attempts"], row["leased_until"]) == (1, None)
        return row["last_error"]

    def test_two_reactions_of_one_name_are_refused(self):
        with pytest.raises(ValueError, match="two reactions"):
            Reactions([Reaction("x", "*", record), Reaction("x", "a.*", record)])


class TestBacklog:
    """Claims stay quick however many rows wait behind others, also before PostgreSQL has gathered statistics."""

    async def _queue(self, database: Database, sink: str, keys: int, rows: int) -> None:
        async with database.transaction() as tx:
            await tx.execute(
                "insert into outbox_events (event_type, entity_type, entity_id, order_key, slot, payload, relayed_at)"
                " select 'thing.happened', 'thing', 'e' || n %% %(keys)s, %(sink)s || n %% %(keys)s, 0,"
                " jsonb_build_object('n', n), now() from generate_series(1, %(rows)s) n",
                {"keys": keys, "rows": rows, "sink": sink},
            )
            await tx.execute(
                "insert into outbox_deliveries (event_id, sink, order_key) select event_id, %s, order_key"
                " from outbox_events where order_key like %s order by event_id",
                (sink, f"{sink}%"),
            )

    async def test_thousands_behind_waiting_heads_hide_nobody_else(self, database):
        await self._queue(database, "reaction:stuck", keys=500, rows=6000)
        async with database.transaction() as tx:
            await tx.execute("update outbox_deliveries set due_at = now() + interval '1 hour' where event_id <= 500")
        await self._queue(database, "reaction:record", keys=3, rows=9)
        async with asyncio.timeout(5):
            await Deliveries(database, receivers(Reaction("record", "*", record)), QUICK, owner="w").drain()
        assert sum(map(len, (await effects(database)).values())) == 9
        async with database.transaction() as tx:
            row = await fetch_one(tx, "select count(*) as n from outbox_deliveries where due_at <= now()")
        assert row["n"] < 1000, "those behind wait with their heads and are not looked at meanwhile"

    async def test_thousands_on_one_key_are_done_in_order_without_delay(self, database):
        await self._queue(database, "reaction:record", keys=1, rows=1500)
        workers = [
            Deliveries(database, receivers(Reaction("record", "*", record)), QUICK, owner=owner) for owner in "ab"
        ]
        async with asyncio.timeout(30):
            while (await effects(database)).get("e0", [0])[-1] < 1500:
                await asyncio.gather(*(worker.drain() for worker in workers))
        assert await effects(database) == {"e0": list(range(1, 1501))}

    async def test_a_row_set_aside_behind_one_that_dies_is_due_at_once(self, database):
        async def handle(tx, event: StoredEvent) -> None:
            if event.event.payload["n"] == 1:
                raise RuntimeError("never")
            await record(tx, event)

        await write(database, "e", 1, 2)
        to = receivers(Reaction("handle", "*", handle))
        await relay_all(database, to)
        async with database.transaction() as tx:
            await tx.execute("update outbox_deliveries set due_at = now() + interval '1 hour' where event_id = 2")
        worker = Deliveries(database, to, DeliverySettings(max_attempts=1), owner="w")
        await worker.drain()
        assert await effects(database) == {"e": [2]}


class Plugin:
    name = "plug"

    def __init__(self) -> None:
        self.heard: list[int] = []

    def wants(self, event_type: str) -> bool:
        return event_type == "thing.happened"

    async def send(self, event: StoredEvent) -> None:
        self.heard.append(event.event.payload["n"])


class TestSinks:
    async def test_a_plug_in_hears_what_it_wants_in_order(self, database):
        plugin = Plugin()
        to = receivers(plugins={"plug": plugin})
        await write(database, "e", 1, 2, 3)
        async with database.transaction() as tx:
            await announce(tx, Event("other.happened", "other", "e", {"n": 9}))
        await relay_all(database, to)
        await Deliveries(database, to, QUICK, owner="w").drain()
        assert plugin.heard == [1, 2, 3]

    async def test_a_receiver_that_is_not_installed_any_more_becomes_a_dead_letter(self, database):
        await write(database, "e", 1)
        await relay_all(database, receivers(plugins={"plug": Plugin()}))
        worker = Deliveries(database, receivers(), QUICK, owner="w")
        for _ in range(4):
            await worker.drain()
            await hurry(database)
        async with database.transaction() as tx:
            [dead] = await dead_letters(tx)
        assert "no plug-in sink plug" in dead["last_error"]
