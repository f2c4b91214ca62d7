"""One merchant's receivers, however slow, and its backlog, however long, do not hold up another's deliveries."""

import asyncio
from datetime import timedelta

from tests.support.outlets import receivers, relay_all

from penstock.kernel.db import Database, fetch_all
from penstock.kernel.deliveries import Deliveries, DeliverySettings
from penstock.kernel.events import Event, StoredEvent
from penstock.kernel.outbox import announce
from penstock.kernel.pump import Pump
from penstock.kernel.tenant_shares import TenantShares, share_of

EIGHT = DeliverySettings(calls_at_once=8, handler_seconds=timedelta(seconds=20))


class Receiver:
    """A plug-in that never answers for the merchants that it is told to hang for."""

    name = "plug"

    def __init__(self, *hangs_for: str) -> None:
        self.hangs_for = hangs_for
        self.heard: list[str | None] = []
        self.most = 0
        self._hanging = 0
        self.answered = asyncio.Event()

    def wants(self, event_type: str) -> bool:
        return event_type == "thing.happened"

    async def send(self, event: StoredEvent) -> None:
        self.heard.append(event.event.merchant_id)
        if event.event.merchant_id not in self.hangs_for:
            self.answered.set()
            return
        self._hanging += 1
        self.most = max(self.most, self._hanging)
        await asyncio.Event().wait()


async def happen(database: Database, merchant: str, times: int = 1) -> None:
    async with database.transaction() as tx:
        await announce(
            tx, *(Event("thing.happened", "thing", f"{merchant}-{n}", {}, merchant_id=merchant) for n in range(times))
        )


class TestSlowReceivers:
    async def test_a_merchant_whose_receivers_hang_keeps_a_quarter_of_the_places_at_the_most(self, database):
        receiver = Receiver("slow")
        to = receivers(plugins={"plug": receiver})
        worker = Deliveries(database, to, EIGHT, owner="w")
        await happen(database, "slow", 20)
        await relay_all(database, to)
        draining = asyncio.create_task(worker.drain())
        try:
            async with asyncio.timeout(10):
                while receiver.most < 2:
                    await asyncio.sleep(0.01)
                await happen(database, "quick")
                await relay_all(database, to)
                await worker.drain()  # as a wake-up does; the first one is still busy with those that hang
                await receiver.answered.wait()
            assert receiver.most == 2
        finally:
            worker.hand_back()
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)

    async def test_a_backlog_of_one_merchant_is_not_worked_off_before_anothers_event(self, database):
        receiver = Receiver()
        to = receivers(plugins={"plug": receiver})
        await happen(database, "busy", 300)
        await happen(database, "quick")
        await relay_all(database, to)
        await Deliveries(database, to, DeliverySettings(calls_at_once=4), owner="w").drain()
        assert receiver.heard.index("quick") < 5
        assert len(receiver.heard) == 301

    async def test_all_merchants_get_their_turn_when_more_wait_than_one_claim_lists(self, database, monkeypatch):
        monkeypatch.setattr("penstock.kernel.delivery_claim.MOST_LANES", 3)
        receiver = Receiver()
        to = receivers(plugins={"plug": receiver})
        for number in range(10):
            await happen(database, f"m-{number}")
        await relay_all(database, to)
        await Deliveries(database, to, EIGHT, owner="w").drain()
        async with database.transaction() as tx:
            open_rows = await fetch_all(tx, "select 1 from outbox_deliveries where done_at is null")
        assert (len(receiver.heard), open_rows) == (10, [])


class TestPump:
    async def test_asked_again_it_fills_its_free_places_while_a_slow_item_runs(self):
        waiting, done, go_on = ["slow"], [], asyncio.Event()

        async def claim(limit: int) -> list[tuple[str]]:
            return [(waiting.pop(),) for _ in range(min(limit, len(waiting)))]

        async def work(item: str) -> None:
            if item == "slow":
                await go_on.wait()
            done.append(item)

        pump = Pump(claim, work, 2)
        draining = asyncio.create_task(pump.drain())
        await asyncio.sleep(0)
        waiting.append("quick")
        await pump.drain()
        async with asyncio.timeout(2):
            while "quick" not in done:
                await asyncio.sleep(0)
        go_on.set()
        assert await draining == 2


class TestTurns:
    def test_whoever_has_least_running_is_next_then_whoever_was_served_longest_ago(self):
        shares = TenantShares(places=8, per_tenant=2)
        for tenant in ("a", "b", "c", "a", "b"):
            shares.take(tenant)
        shares.release("b")
        assert shares.in_turn(["a", "b", "c", "d"]) == ["d", "c", "b"], "a has its two places"

    def test_a_share_is_at_least_one_place_and_never_all_of_several(self):
        assert [share_of(*each) for each in ((64, 0.25), (3, 0.9), (1, 0.5), (2, 0.1), (4, 1.0))] == [16, 2, 1, 1, 4]
