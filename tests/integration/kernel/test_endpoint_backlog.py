"""For a paused endpoint only so many events wait; what is left out can be seen, and sent again."""

from functools import partial

import pytest
from tests.support.outlets import receivers

from penstock.kernel import endpoint_backlog, webhooks
from penstock.kernel.db import Database, fetch_all, fetch_one
from penstock.kernel.deliveries import dead_letters, send_again
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.relay import Outlets, Relay, RelaySettings
from penstock.kernel.webhooks import Registration


class Shop:
    """A merchant with an endpoint that is paused, for which no more than five events wait."""

    def __init__(self, database: Database) -> None:
        self.database = database
        to = receivers()

        async def wake(slot: int) -> None: ...

        outlets = Outlets(to.publish, to.rows_for, wake, partial(endpoint_backlog.bound, most=5))
        self.relay = Relay(database, outlets, RelaySettings())

    async def register(self, *types: str) -> str:
        async with self.database.transaction() as tx:
            made = await webhooks.register(tx, Registration("m1", "https://example.com/", types, "u1"))
        return f"webhook:{made['endpoint_id']}"

    async def pause(self, sink: str) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(
                "insert into endpoint_breakers (sink, merchant_id, failures, failing_since, paused_until)"
                " values (%s, 'm1', 5, now(), now() + interval '1 minute')",
                (sink,),
            )

    async def happen(self, first: int, last: int, what: str = "job.made") -> None:
        async with self.database.transaction() as tx:
            await announce(tx, *(Event(what, "job", f"j{n}", merchant_id="m1") for n in range(first, last + 1)))
        while await self.relay.relay_once():
            pass

    async def waiting(self, sink: str) -> int:
        async with self.database.transaction() as tx:
            query = "select count(*) as n from outbox_deliveries where sink = %s and dead_at is null"
            row = await fetch_one(tx, query, (sink,))
        return row["n"]

    async def letters(self) -> list[dict]:
        async with self.database.transaction() as tx:
            return await dead_letters(tx)

    async def send_again(self, letter: dict) -> None:
        async with self.database.transaction() as tx:
            await send_again(tx, letter["delivery_id"])

    async def events(self, what: str) -> list[int]:
        async with self.database.transaction() as tx:
            query = "select event_id from outbox_events where event_type = %s order by 1"
            return [row["event_id"] for row in await fetch_all(tx, query, (what,))]


@pytest.fixture
def shop(database) -> Shop:
    return Shop(database)


class TestLimit:
    async def test_for_a_paused_endpoint_only_so_many_wait_and_others_get_all(self, shop):
        paused, well = await shop.register("job.*"), await shop.register("job.*")
        await shop.pause(paused)
        for batch in range(4):
            await shop.happen(batch * 3, batch * 3 + 2)
        assert (await shop.waiting(paused), await shop.waiting(well)) == (5, 12)

    async def test_one_dead_letter_stands_for_all_that_were_left_out_and_the_merchant_sees_how_many(self, shop):
        paused = await shop.register("job.*")
        await shop.pause(paused)
        for batch in range(4):
            await shop.happen(batch * 3, batch * 3 + 2)
        [letter] = await shop.letters()
        async with shop.database.transaction() as tx:
            delivered = await fetch_all(tx, "select event_id from outbox_deliveries where gap_to is null")
            [shown] = await webhooks.endpoints(tx, "m1")
        left = sorted({*await shop.events("job.made")} - {row["event_id"] for row in delivered})
        assert (letter["gap_from"], letter["gap_to"], letter["gap_events"]) == (left[0], left[-1], 7)
        assert (shown["left_out"], shown["left_out_from"], shown["left_out_to"]) == (7, left[0], left[-1])

    async def test_an_endpoint_that_answers_gets_everything_again(self, shop):
        sink = await shop.register("job.*")
        await shop.pause(sink)
        await shop.happen(0, 9)
        async with shop.database.transaction() as tx:
            await tx.execute("update endpoint_breakers set paused_until = null, failures = 0")
        await shop.happen(10, 19)
        assert await shop.waiting(sink) == 15


class TestSendingAgain:
    async def test_each_event_that_was_left_out_and_is_wanted_is_delivered_once(self, shop):
        sink = await shop.register("job.made")
        await shop.pause(sink)
        await shop.happen(0, 6)
        await shop.happen(7, 9, "job.other")
        await shop.happen(10, 12)
        [letter] = await shop.letters()
        await shop.send_again(letter)
        assert await shop.waiting(sink) == 10
        assert await shop.letters() == []

    async def test_more_than_can_be_sent_at_once_leave_a_smaller_gap(self, shop, monkeypatch):
        monkeypatch.setattr(endpoint_backlog, "REFILLED_AT_ONCE", 4)
        sink = await shop.register("job.*")
        await shop.pause(sink)
        await shop.happen(0, 19)
        rounds = 0
        while letters := await shop.letters():
            [letter] = letters
            assert letter["gap_events"] == 15 - rounds * 5
            await shop.send_again(letter)
            rounds += 1
        assert (rounds, await shop.waiting(sink)) == (3, 20)

    async def test_what_is_left_out_after_that_is_a_gap_of_its_own(self, shop):
        sink = await shop.register("job.*")
        await shop.pause(sink)
        await shop.happen(0, 9)
        [letter] = await shop.letters()
        await shop.send_again(letter)
        await shop.happen(10, 12)
        [later] = await shop.letters()
        assert (later["gap_events"], later["gap_from"] > letter["gap_to"]) == (3, True)
