"""A worker's rounds: it takes what waits, does page after page, and stops when the job is no longer its own."""

import asyncio
from datetime import timedelta

import pytest
from tests.support.page_jobs import add_job, add_worker, job_row, page_states, rows

from penstock.bootstrap import load_settings, started
from penstock.documents import pagework
from penstock.documents.pagework import Done, Failed
from penstock.documents.states import JOB, JobStatus
from penstock.kernel.statemachine import Step, move
from penstock.worker import run_worker


class Reader:
    """Does what the test says for each page; 'done' unless told otherwise."""

    def __init__(self, outcome=None) -> None:
        self.outcome = outcome
        self.seen: list[int] = []
        self.cancelled: list[int] = []
        self.finished: list[pagework.Hold] = []
        self.after_finish = None

    async def work_on(self, page):
        self.seen.append(page.number)
        try:
            return await self.outcome(page) if self.outcome else Done(1)
        except asyncio.CancelledError:
            self.cancelled.append(page.number)
            raise

    async def finish(self, hold):
        self.finished.append(hold)
        if self.after_finish:
            await self.after_finish(hold)


@pytest.fixture
async def parts(environment):
    environment.setenv("GW_WORKER_ID", "w1")
    environment.setenv("GW_PAGE_LEASE_SEC", "0.3")
    environment.setenv("GW_CHECKPOINT_INTERVAL", "2")
    async with started(load_settings(), role="worker") as made:
        yield made


class Working:
    """`async with Working(parts, reader)`: the worker role is running."""

    def __init__(self, parts, reader) -> None:
        self.stop = asyncio.Event()
        self.start = lambda: run_worker(parts, self.stop, processor=reader)

    async def __aenter__(self):
        self.running = asyncio.create_task(self.start())
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await asyncio.wait_for(self.running, 20)


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.02)


class TestGoingThrough:
    async def test_a_waiting_job_is_taken_and_every_page_is_done_in_order(self, parts, database):
        job_id, reader = await add_job(database, 5), Reader()

        async def finished():
            return bool(reader.finished)

        async with Working(parts, reader):
            await until(finished)
        assert reader.seen == [1, 2, 3, 4, 5]
        assert await page_states(database, job_id) == ["AI_COMPLETED"] * 5
        job = await job_row(database, job_id)
        assert (job["worker_id"], job["checkpoint_page"]) == ("w1", 5)

    async def test_it_finishes_a_job_once_though_the_job_stays(self, parts, database):
        await add_job(database, 1)
        reader = Reader()

        async def second_done():
            return len(reader.finished) == 2

        async with Working(parts, reader):
            await until(lambda: rows(database, "select 1 from pdf_jobs where checkpoint_page = 1"))
            await add_job(database, 1)  # by the time this one is done the first has been looked at again
            await until(second_done)
        assert len({hold.job_id for hold in reader.finished}) == 2

    async def test_it_is_entered_as_one_that_takes_jobs(self, parts, database):
        async with Working(parts, Reader()):
            await until(lambda: rows(database, "select 1 from worker_heartbeats where takes_jobs"))

    async def test_a_worker_without_a_processor_is_not(self, parts, database):
        await add_job(database)
        async with Working(parts, None):
            await until(lambda: rows(database, "select 1 from worker_heartbeats"))
        assert await rows(database, "select 1 from worker_heartbeats where takes_jobs") == []
        assert await rows(database, "select 1 from pdf_jobs where status <> 'EVALUATED'") == []

    async def test_a_page_that_takes_longer_than_its_lease_is_kept(self, parts, database):
        async def slow(_page):
            await asyncio.sleep(1.0)
            return Done(1)

        job_id, reader = await add_job(database, 1), Reader(slow)

        async def finished():
            return bool(reader.finished)

        async with Working(parts, reader):
            await until(finished)
        assert reader.seen == [1]
        assert await page_states(database, job_id) == ["AI_COMPLETED"]


class TestFailing:
    async def test_a_page_that_never_works_goes_to_a_person_and_the_others_are_done(self, parts, database):
        async def outcome(page):
            if page.number == 1:
                raise ZeroDivisionError
            return Failed("unreadable") if page.number == 2 else Done(1)

        job_id, reader = await add_job(database, 3), Reader(outcome)

        async def finished():
            return bool(reader.finished)

        async with Working(parts, reader):
            await until(finished)
        assert await page_states(database, job_id) == ["HUMAN_QUEUED", "HUMAN_QUEUED", "AI_COMPLETED"]
        assert reader.seen == [1, 2, 3, 1, 2, 1, 2]
        told = await rows(
            database, "select payload->>'reason' as reason from outbox_events where notice = 'human_needed'"
        )
        assert [row["reason"].split(":")[0] for row in told] == ["ZeroDivisionError", "unreadable"]

    async def test_a_finish_that_fails_is_tried_again_and_other_jobs_go_on(self, parts, database, monkeypatch):
        monkeypatch.setattr("penstock.documents.processing._REST_SECONDS", 0.1)
        await add_job(database, 1)
        reader = Reader()

        async def stumble(_hold):
            if len(reader.finished) == 1:
                raise ZeroDivisionError

        reader.after_finish = stumble

        async def twice():
            return len(reader.finished) == 2

        async with Working(parts, reader):
            await until(twice)
        assert reader.seen == [1]


class TestLosingTheJob:
    @pytest.mark.parametrize("loss", ["cancelled", "given_away"])
    async def test_the_work_in_hand_is_stopped_and_no_page_follows(self, parts, database, loss):
        async def endless(_page):
            await asyncio.Event().wait()

        job_id, reader = await add_job(database, 3), Reader(endless)

        async def begun():
            return bool(reader.seen)

        async def let_go():
            [row] = await rows(database, "select active_job_ids from worker_heartbeats where worker_id = 'w1'")
            return reader.cancelled and not row["active_job_ids"]

        async with Working(parts, reader):
            await until(begun)
            await add_worker(database, "w2")
            async with database.transaction() as tx:
                if loss == "cancelled":
                    step = Step(str(job_id), JobStatus.PROCESSING, JobStatus.CANCELLED, by="api", trigger="t")
                    await move(tx, JOB, step)
                else:
                    await tx.execute("update pdf_jobs set worker_id = 'w2', hold_token = hold_token + 1")
            await until(let_go)
        assert (reader.seen, reader.cancelled, reader.finished) == ([1], [1], [])
        assert await page_states(database, job_id) == ["AI_PROCESSING", "AI_QUEUED", "AI_QUEUED"]


class TestLeaving:
    async def test_work_that_takes_too_long_is_cut_short_and_the_job_given_on(self, environment, database):
        environment.setenv("GW_WORKER_ID", "w1")
        environment.setenv("PENSTOCK_SHUTDOWN_SECONDS", "1")

        async def endless(_page):
            await asyncio.Event().wait()

        job_id, reader = await add_job(database, 3), Reader(endless)

        async def begun():
            return bool(reader.seen)

        async with started(load_settings(), role="worker") as parts, Working(parts, reader):
            await until(begun)
            await add_worker(database, "w2")
        job = await job_row(database, job_id)
        assert (job["status"], job["worker_id"]) == ("PROCESSING", "w2")
        async with database.transaction() as tx:
            again = await pagework.take_up(tx, job_id, "w2")
            pages = await pagework.claim_pages(tx, again, ttl=timedelta(seconds=9), limit=9)
        assert [page.number for page in pages] == [1, 2, 3]


class TestComingBackUnderTheSameName:
    async def test_it_goes_on_with_its_own_jobs_without_any_orphaning(self, parts, database):
        await add_worker(database, "w1")
        job_id = await add_job(database, 3)
        async with database.transaction() as tx:  # the life before: one page done, one in hand
            hold = await pagework.take(tx, job_id, "w1")
            first, _second = await pagework.claim_pages(tx, hold, ttl=timedelta(hours=1), limit=2)
            await pagework.complete(tx, first, Done(1))
        reader = Reader()

        async def finished():
            return bool(reader.finished)

        async with Working(parts, reader):
            await until(finished)
        assert reader.seen == [2, 3]
        assert await page_states(database, job_id) == ["AI_COMPLETED"] * 3
