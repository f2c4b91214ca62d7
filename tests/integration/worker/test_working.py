"""The worker role: told to stop, it finishes what it holds and takes nothing more."""

import asyncio

from penstock.bootstrap import load_settings, started
from penstock.kernel.db import fetch_all, fetch_one
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.reactions import Reaction
from penstock.worker import run_worker


class TestStopping:
    async def test_what_is_in_hand_is_finished_and_the_rest_is_left_to_others(self, environment):
        begun, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(tx, event):
            begun.set()
            await go_on.wait()

        async with started(load_settings(), role="worker", reactions=[Reaction("slow", "thing.*", slow)]) as parts:
            async with parts.database.transaction() as tx:
                await announce(tx, Event("thing.made", "thing", "a"), Event("thing.used", "thing", "a"))
            while await parts.relay().relay_once():
                pass
            working = asyncio.create_task(run_worker(parts, stop))
            async with asyncio.timeout(20):
                await begun.wait()
                stop.set()
                go_on.set()
                await working
            async with parts.database.transaction() as tx:
                rows = await fetch_all(
                    tx, "select done_at is not null as done, leased_until from outbox_deliveries order by event_id"
                )
                worker = await fetch_one(tx, "select status from worker_heartbeats")
        assert [(row["done"], row["leased_until"]) for row in rows] == [(True, None), (False, None)]
        assert worker["status"] == "DEAD"
