"""The relay: every event leaves at least once, in order per key, whatever the outlets do."""

import asyncio
from collections import defaultdict
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY
from tests.support.outlets import receivers, relay_all

from penstock.kernel.db import Database, fetch_all, fetch_one
from penstock.kernel.deliveries import Deliveries, DeliverySettings, dead_letters, send_again
from penstock.kernel.events import Event, StoredEvent, slot_of
from penstock.kernel.outbox import announce
from penstock.kernel.redis import RedisConnectionError
from penstock.kernel.relay import Outlets, Relay, RelaySettings
from penstock.kernel.relay_turns import _FIRST_LEFT, _IN_TURN, _LANES, _TAKE_SLOT

QUICK = RelaySettings(poll_seconds=timedelta(milliseconds=5), max_attempts=3, batch=50)


class Listener:
    """An outlet that remembers what it got, and can be told to refuse."""

    def __init__(self) -> None:
        self.seen: list[StoredEvent] = []
        self.poison: set[str] = set()
        self.away = False
        self.woken: list[int] = []
        self.receivers: list[str] = []

    async def publish(self, events) -> None:
        if self.away:
            raise RedisConnectionError("gone")
        for event in events:
            if event.event.entity_id in self.poison:
                raise ValueError(f"cannot stomach {event.event.entity_id}")
        self.seen += events

    async def rows(self, tx, events) -> list[tuple[int, str, str]]:
        return [(event.event_id, sink, event.event.order_key) for event in events for sink in self.receivers]

    async def wake(self, slot: int) -> None:
        self.woken.append(slot)

    def outlets(self) -> Outlets:
        return Outlets(self.publish, self.rows, self.wake)

    def merchants(self) -> set[str | None]:
        return {event.event.merchant_id for event in self.seen}

    def by_key(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for event in self.seen:
            found[event.event.order_key].append(event.event.payload["n"])
        return found


async def write(database: Database, entity: str, *numbers: int) -> None:
    async with database.transaction() as tx:
        await announce(tx, *(Event("thing.happened", "thing", entity, {"n": n}) for n in numbers))


async def drain(relay: Relay) -> None:
    idle = 0
    while idle < 3:
        idle = 0 if await relay.relay_once() else idle + 1


async def outbox(database: Database):
    async with database.transaction() as tx:
        return await fetch_all(tx, "select * from outbox_events order by event_id")


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def relay(database, listener) -> Relay:
    return Relay(database, listener.outlets(), QUICK)


class TestOrder:
    async def test_five_relays_at_once_keep_the_order_of_every_key(self, database, listener):
        for n in range(20):
            for entity in range(10):
                await write(database, f"e{entity}", n)
        relays = [Relay(database, listener.outlets(), QUICK) for _ in range(5)]
        await asyncio.gather(*(drain(each) for each in relays))
        assert listener.by_key() == {f"thing:e{n}": list(range(20)) for n in range(10)}

    async def test_an_earlier_number_that_commits_later_is_not_skipped(self, database, relay, listener):
        async with database.transaction() as slow:
            await announce(slow, Event("thing.happened", "thing", "slow", {"n": 1}))
            await write(database, "quick", 1)
            await drain(relay)
            assert listener.by_key() == {"thing:quick": [1]}
        await drain(relay)
        assert listener.by_key() == {"thing:quick": [1], "thing:slow": [1]}

    def test_a_key_always_lands_in_the_same_slot(self):
        assert [slot_of(f"thing:e{n}") for n in range(5)] == [13, 11, 1, 7, 4]


class TestBacklog:
    async def test_a_look_at_a_slot_does_not_go_through_its_backlog(self, database, relay, listener):
        async with database.transaction() as tx:
            await tx.execute(
                "insert into outbox_events (event_type, entity_type, entity_id, order_key, slot, payload)"
                " select 'thing.happened', 'thing', 'e', 'thing:e', 3, jsonb_build_object('n', n)"
                " from generate_series(1, 20000) n"
            )
            await tx.execute("analyze outbox_events")
            found = await fetch_one(tx, f"explain (analyze, format json) {_TAKE_SLOT}", {"last": 0})
        assert most_rows(found["QUERY PLAN"][0]["Plan"]) <= 16
        assert await relay.relay_once() == 50


def most_rows(plan: dict) -> int:
    """The most rows that any step of an executed plan returned in one go, or threw away."""
    own = max(plan["Actual Rows"], plan.get("Rows Removed by Filter", 0))
    return max([own, *map(most_rows, plan.get("Plans", []))])


class TestTurns:
    """Slot 13, which `thing:e0` is in: many events of one merchant, then one of another."""

    async def test_an_event_leaves_with_the_next_batch_whatever_another_merchant_has_waiting(
        self, database, relay, listener
    ):
        await backlog(database, "flood", 2000)
        await backlog(database, "calm", 1)
        assert await relay.relay_once() <= QUICK.batch
        assert "calm" in listener.merchants()

    async def test_of_more_merchants_than_a_batch_holds_each_has_its_turn_soon(self, database, relay, listener):
        await backlog(database, "flood", 300)
        for n in range(160):
            await backlog(database, f"m{n}", 1)
        for _ in range(5):
            await relay.relay_once()
        assert len(listener.merchants()) == 161

    async def test_a_transaction_makes_no_more_rows_for_a_merchant_than_its_budget(self, database, listener):
        listener.receivers = [f"reaction:{n}" for n in range(50)]
        await backlog(database, "flood", 40)
        await backlog(database, "calm", 1)
        relay = Relay(database, listener.outlets(), QUICK.model_copy(update={"merchant_rows": 200}))
        assert await relay.relay_once() == 4 + 1
        await drain(relay)
        async with database.transaction() as tx:
            assert await fetch_one(tx, "select count(*) as n from outbox_deliveries") == {"n": 41 * 50}

    async def test_slots_are_served_in_turn(self, database, relay, listener):
        for _ in range(3):
            for slot in range(16):
                await backlog(database, f"s{slot}", 50, slot=slot)
        for _ in range(16):
            await relay.relay_once()
        assert listener.merchants() == {f"s{slot}" for slot in range(16)}

    async def test_a_key_whose_events_are_of_a_merchant_and_of_none_keeps_its_order(self, database, listener):
        listener.receivers = ["reaction:a", "reaction:b"]
        async with database.transaction() as tx:
            await tx.execute(
                "insert into outbox_events (event_type, entity_type, entity_id, merchant_id, order_key, slot, payload)"
                " select 'thing.happened', 'thing', 'e', case when n %% 7 < %(part)s then 'm' || n %% 3 end,"
                " 'thing:e' || n %% 5, 13, jsonb_build_object('n', n) from generate_series(0, 999) n",
                {"part": 2},
            )
        relays = [
            Relay(database, listener.outlets(), QUICK.model_copy(update={"merchant_rows": rows})) for rows in (7, 500)
        ]
        await asyncio.gather(*(drain(each) for each in relays))
        assert listener.by_key() == {f"thing:e{key}": list(range(key, 1000, 5)) for key in range(5)}

    async def test_a_batch_costs_the_same_whatever_the_backlog(self, database, relay, listener):
        await backlog(database, "flood", 20_000)
        await backlog(database, "calm", 20)
        async with database.transaction() as tx:
            await tx.execute("analyze outbox_events")
            plans = [
                await fetch_one(tx, f"explain (analyze, format json) {query}", wanted)
                for query, wanted in (
                    (_LANES, {"slot": 13, "first": ""}),
                    (_IN_TURN, {"slot": 13, "lanes": ["calm", "flood"], "rooms": [12, 12]}),
                    (_FIRST_LEFT, {"ids": [1, 2], "keys": ["flood:1", "flood:2"]}),
                )
            ]
        assert [most_rows(each["QUERY PLAN"][0]["Plan"]) <= 50 for each in plans] == [True] * 3


async def backlog(database: Database, merchant: str, events: int, *, slot: int = 13) -> None:
    """Events of as many keys, which have not been relayed."""
    async with database.transaction() as tx:
        await tx.execute(
            "insert into outbox_events (event_type, entity_type, entity_id, merchant_id, order_key, slot, payload)"
            " select 'thing.happened', 'thing', 'e', %(merchant)s, %(merchant)s || ':' || n, %(slot)s,"
            " jsonb_build_object('n', n) from generate_series(1, %(events)s) n",
            {"merchant": merchant, "events": events, "slot": slot},
        )


class TestTrouble:
    async def test_a_poison_event_blocks_only_its_own_key(self, database, relay, listener):
        listener.poison = {"bad"}
        same_slot = next(f"g{n}" for n in range(100) if slot_of(f"thing:g{n}") == slot_of("thing:bad"))
        await write(database, "bad", 1)
        await write(database, same_slot, 1, 2)
        await write(database, "bad", 2)
        await drain(relay)
        assert listener.by_key() == {f"thing:{same_slot}": [1, 2]}
        await write(database, same_slot, 3)
        await drain(relay)
        assert listener.by_key() == {f"thing:{same_slot}": [1, 2, 3]}

    async def test_a_poison_event_is_given_up_at_last_and_its_key_goes_on(self, database, relay, listener):
        listener.poison = {"bad"}
        listener.receivers = ["reaction:a"]
        await write(database, "bad", 1)
        for _ in range(3):
            await drain(relay)
            await self._turn_clock(database)
        listener.poison = set()
        await write(database, "bad", 2)
        await drain(relay)
        assert listener.by_key() == {"thing:bad": [2]}
        async with database.transaction() as tx:
            [dead] = await dead_letters(tx)
            others = await fetch_all(tx, "select event_id from outbox_deliveries where sink = 'reaction:a' order by 1")
        assert (dead["sink"], dead["attempts"]) == ("stream:redis", 3)
        assert "cannot stomach bad" in dead["last_error"]
        assert [row["event_id"] for row in others] == [1, 2], "what the streams refuse still reaches the others"

    async def test_an_operator_can_send_a_given_up_event_to_the_streams_again(self, database, relay, listener):
        listener.poison = {"bad"}
        await write(database, "bad", 1)
        for _ in range(3):
            await drain(relay)
            await self._turn_clock(database)
        listener.poison = set()
        async with database.transaction() as tx:
            [dead] = await dead_letters(tx)
            await send_again(tx, dead["delivery_id"])
        await Deliveries(database, receivers(publish=listener.publish), DeliverySettings(), owner="w").drain()
        assert listener.by_key() == {"thing:bad": [1]}
        async with database.transaction() as tx:
            assert await dead_letters(tx) == []

    async def test_a_poison_event_that_recovers_is_sent_before_those_behind_it(self, database, relay, listener):
        listener.poison = {"bad"}
        await write(database, "bad", 1)
        await drain(relay)
        await write(database, "bad", 2)
        await drain(relay)
        listener.poison = set()
        await drain(relay)
        assert listener.seen == [], "the key waits for its time"
        await self._turn_clock(database)
        await drain(relay)
        assert listener.by_key() == {"thing:bad": [1, 2]}

    async def test_events_behind_a_poison_one_in_the_same_batch_wait_for_it(self, database, relay, listener):
        listener.poison = {"bad"}
        await write(database, "bad", 1, 2, 3)
        await drain(relay)
        listener.poison = set()
        await self._turn_clock(database)
        await drain(relay)
        assert listener.by_key() == {"thing:bad": [1, 2, 3]}

    async def test_redis_being_away_costs_no_attempt_and_loses_nothing(self, database, relay, listener):
        listener.away = True
        await write(database, "e", 1, 2)
        with pytest.raises(RedisConnectionError):
            await relay.relay_once()
        listener.away = False
        await drain(relay)
        assert listener.by_key() == {"thing:e": [1, 2]}
        assert all(row["attempts"] == 0 for row in await outbox(database))

    async def test_the_running_relay_waits_for_redis_and_goes_on(self, database, relay, listener):
        listener.away = True
        stop = asyncio.Event()
        running = asyncio.create_task(relay.run(stop))
        await write(database, "e", 1)
        await asyncio.sleep(0.2)
        listener.away = False
        async with asyncio.timeout(5):
            while not listener.seen:
                await asyncio.sleep(0.02)
        stop.set()
        await running

    async def test_a_row_that_cannot_be_read_stops_neither_the_relay_nor_other_slots(self, database, relay, listener):
        other = next(f"g{n}" for n in range(100) if slot_of(f"thing:g{n}") != slot_of("thing:bad"))
        await write(database, "bad", 1)
        await write(database, other, 1)
        async with database.transaction() as tx:
            await tx.execute("update outbox_events set event_type = 'Of another release' where entity_id = 'bad'")
        stop = asyncio.Event()
        running = asyncio.create_task(relay.run(stop))
        async with asyncio.timeout(10):
            while not listener.seen and not running.done():
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        assert not running.done()
        stop.set()
        await running
        assert listener.by_key() == {f"thing:{other}": [1]}

    async def test_a_plug_in_that_cannot_say_what_it_wants_gets_it(self, database):
        class Confused:
            name = "confused"

            def wants(self, event_type: str) -> bool:
                raise RuntimeError("what?")

            async def send(self, event) -> None: ...

        await write(database, "e", 1)
        await relay_all(database, receivers(plugins={"confused": Confused()}))
        async with database.transaction() as tx:
            assert await fetch_one(tx, "select sink from outbox_deliveries") == {"sink": "plugin:confused"}

    async def test_the_age_of_what_is_stuck_shows_while_the_relay_runs(self, database, relay, listener):
        listener.away = True
        await write(database, "e", 1)
        async with database.transaction() as tx:
            await tx.execute("update outbox_events set occurred_at = now() - interval '90 seconds'")
        stop = asyncio.Event()
        running = asyncio.create_task(relay.run(stop))
        await asyncio.sleep(0.3)
        stop.set()
        await running
        assert REGISTRY.get_sample_value("penstock_relay_lag_seconds") >= 90

    async def _turn_clock(self, database: Database) -> None:
        async with database.transaction() as tx:
            await tx.execute("update outbox_events set retry_at = retry_at - interval '1 hour'")


class TestDeliveryRows:
    async def test_each_event_gets_one_row_per_receiver_and_workers_are_woken(self, database, relay, listener):
        listener.receivers = ["reaction:a", "reaction:b"]
        await write(database, "e", 1, 2)
        await drain(relay)
        async with database.transaction() as tx:
            row = await fetch_one(
                tx, "select count(*) as n, count(distinct (event_id, sink)) as d from outbox_deliveries"
            )
        assert (row["n"], row["d"]) == (4, 4)
        assert listener.woken == [slot_of("thing:e")]

    async def test_an_event_published_twice_gets_its_rows_once(self, database, relay, listener):
        listener.receivers = ["reaction:a"]
        await write(database, "e", 1)
        await drain(relay)
        async with database.transaction() as tx:
            await tx.execute("update outbox_events set relayed_at = null")
        await drain(relay)
        async with database.transaction() as tx:
            row = await fetch_one(tx, "select count(*) as n from outbox_deliveries")
        assert row["n"] == 1
        assert len(listener.seen) == 2


class TestGrammar:
    def test_a_key_that_no_index_holds_is_refused_where_it_is_made(self):
        with pytest.raises(ValueError, match="longer than 1000 bytes"):
            Event("job.created", "job", "1", order_key="界" * 400)

    async def test_a_payload_that_is_content_is_refused_where_it_is_written(self, database):
        with pytest.raises(ValueError, match="262144 is the most"):
            async with database.transaction() as tx:
                await announce(tx, Event("job.created", "job", "1", {"text": "x" * 300_000}))

    def test_an_event_type_that_is_not_entity_dot_past_is_refused(self):
        for wrong in ("JobCreated", "job", "job.", "Job.created", "job created"):
            with pytest.raises(ValueError, match="should read"):
                Event(wrong, "job", "1")
