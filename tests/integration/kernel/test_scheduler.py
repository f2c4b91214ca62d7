"""Scheduled duties: once per period over all schedulers, and a lost holder cannot write."""

import asyncio
from datetime import timedelta

import pytest

from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.scheduler import Duty, Fence, Scheduler, SchedulerSettings

HOUR = timedelta(hours=1)
SETTINGS = SchedulerSettings(tick_seconds=timedelta(seconds=0.01), lease_seconds=timedelta(seconds=0.5))


async def row(database: Database, name: str):
    async with database.transaction() as tx:
        return await fetch_one(tx, "select *, next_run_at - now() as wait from schedule where name = %s", (name,))


async def make_due(database: Database, name: str) -> None:
    async with database.transaction() as tx:
        await tx.execute("update schedule set next_run_at = now() - interval '1 s' where name = %s", (name,))


class TestRunning:
    async def test_ten_schedulers_run_a_duty_once_per_period(self, database):
        runs: list[int] = []

        async def work(fence: Fence) -> None:
            runs.append(1)

        schedulers = [Scheduler(database, [Duty("tidy", HOUR, work)], SETTINGS, owner=f"s{n}") for n in range(10)]
        for period in range(1, 4):
            for scheduler in schedulers:
                await scheduler.enrol()
            started = await asyncio.gather(*(scheduler.start_due() for scheduler in schedulers))
            await asyncio.gather(*(task for tasks in started for task in tasks))
            assert len(runs) == period
            await make_due(database, "tidy")

    async def test_the_next_run_keeps_the_rhythm_and_catches_up_only_once(self, database):
        async def work(fence: Fence) -> None: ...

        scheduler = Scheduler(database, [Duty("tidy", HOUR, work)], SETTINGS, owner="s")
        await scheduler.enrol()
        async with database.transaction() as tx:
            await tx.execute("update schedule set next_run_at = now() - interval '10 minutes'")
        await asyncio.gather(*await scheduler.start_due())
        found = await row(database, "tidy")
        assert timedelta(minutes=49) < found["wait"] < timedelta(minutes=51)
        async with database.transaction() as tx:
            await tx.execute("update schedule set next_run_at = now() - interval '10 hours'")
        await asyncio.gather(*await scheduler.start_due())
        found = await row(database, "tidy")
        assert timedelta(minutes=59) < found["wait"] <= HOUR

    async def test_a_failing_duty_is_recorded_and_runs_again_next_time(self, database):
        async def work(fence: Fence) -> None:
            raise RuntimeError("no luck\x00")

        scheduler = Scheduler(database, [Duty("tidy", HOUR, work)], SETTINGS, owner="s")
        await scheduler.enrol()
        await asyncio.gather(*await scheduler.start_due())
        found = await row(database, "tidy")
        assert found["last_error"] == "RuntimeError: no luck\N{REPLACEMENT CHARACTER}"
        assert found["leased_until"] is None

    async def test_a_duty_that_hangs_is_ended_and_runs_again_next_time(self, database):
        async def work(fence: Fence) -> None:
            await asyncio.sleep(60)

        duty = Duty("stuck", HOUR, work, longest=timedelta(seconds=0.2))
        scheduler = Scheduler(database, [duty], SETTINGS, owner="s")
        await scheduler.enrol()
        async with asyncio.timeout(5):
            await asyncio.gather(*await scheduler.start_due())
        found = await row(database, "stuck")
        assert found["last_error"].startswith("TimeoutError")
        assert found["leased_until"] is None

    async def test_a_cancellation_inside_a_duty_is_a_failure_and_not_a_reason_to_run_it_again_at_once(self, database):
        async def work(fence: Fence) -> None:
            inner = asyncio.ensure_future(asyncio.sleep(60))
            inner.cancel()
            await inner

        scheduler = Scheduler(database, [Duty("odd", HOUR, work)], SETTINGS, owner="s")
        await scheduler.enrol()
        await asyncio.gather(*await scheduler.start_due())
        found = await row(database, "odd")
        assert found["last_error"].startswith("CancelledError")
        assert found["wait"] > timedelta(minutes=50)

    async def test_the_watchdog_keeps_a_long_run_alive(self, database):
        done = asyncio.Event()

        async def work(fence: Fence) -> None:
            await asyncio.sleep(0.8)
            done.set()

        duty = Duty("long", HOUR, work)
        first = Scheduler(database, [duty], SETTINGS, owner="first")
        second = Scheduler(database, [duty], SETTINGS, owner="second")
        await first.enrol()
        tasks = await first.start_due()
        for _ in range(7):
            await asyncio.sleep(0.1)
            assert await second.start_due() == []
        await asyncio.gather(*tasks)
        assert done.is_set()

    async def test_stopping_hands_the_duty_back_at_once(self, database):
        began = asyncio.Event()

        async def work(fence: Fence) -> None:
            began.set()
            await asyncio.sleep(60)

        scheduler = Scheduler(database, [Duty("tidy", HOUR, work)], SETTINGS, owner="s")
        stop = asyncio.Event()
        running = asyncio.create_task(scheduler.run(stop))
        await began.wait()
        stop.set()
        async with asyncio.timeout(5):
            await running
        found = await row(database, "tidy")
        assert found["leased_until"] is None
        assert found["wait"] <= timedelta(0)


class TestFencing:
    async def test_a_paused_holder_cannot_write_after_a_takeover(self, database):
        outcome: list[str] = []
        woken = asyncio.Event()

        async def paused(fence: Fence) -> None:
            await woken.wait()
            try:
                async with database.transaction() as tx:
                    await fence.hold(tx)
                    outcome.append("wrote late")
            except PenstockError as refused:
                assert refused.code is error_codes.LEASE_LOST
                outcome.append("refused")

        async def prompt(fence: Fence) -> None:
            async with database.transaction() as tx:
                await fence.hold(tx)
                outcome.append("wrote")

        unwatched = SchedulerSettings(lease_seconds=timedelta(minutes=1))  # its watchdog sleeps with it
        first = Scheduler(database, [Duty("tidy", HOUR, paused)], unwatched, owner="paused")
        second = Scheduler(database, [Duty("tidy", HOUR, prompt)], SETTINGS, owner="prompt")
        await first.enrol()
        tasks = await first.start_due()
        async with database.transaction() as tx:
            await tx.execute("update schedule set leased_until = now() - interval '1 s'")
        await asyncio.gather(*await second.start_due())
        woken.set()
        await asyncio.gather(*tasks)
        assert outcome == ["wrote", "refused"]

    async def test_a_run_whose_lease_is_lost_is_ended(self, database):
        ended = asyncio.Event()

        async def work(fence: Fence) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        scheduler = Scheduler(database, [Duty("tidy", HOUR, work)], SETTINGS, owner="s")
        await scheduler.enrol()
        [run] = await scheduler.start_due()
        async with database.transaction() as tx:
            await tx.execute("update schedule set lease_token = lease_token + 1, lease_owner = 'other'")
        async with asyncio.timeout(5):
            await ended.wait()
            await run
        assert (await row(database, "tidy"))["lease_owner"] == "other"

    @pytest.mark.parametrize("known", [True, False])
    async def test_duties_of_another_release_are_left_alone(self, database, known):
        ran: list[str] = []

        async def work(fence: Fence) -> None:
            ran.append("mine")

        async with database.transaction() as tx:
            await tx.execute("insert into schedule (name) values ('mine'), ('of a newer release')")
        scheduler = Scheduler(database, [Duty("mine" if known else "else", HOUR, work)], SETTINGS, owner="s")
        await asyncio.gather(*await scheduler.start_due())
        assert ran == (["mine"] if known else [])
        assert (await row(database, "of a newer release"))["lease_token"] == 0
