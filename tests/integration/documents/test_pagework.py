"""Going through pages: one holder per job, one hand per page, and nothing is written by who lost either."""

import asyncio
from datetime import timedelta

import pytest
from tests.support.page_jobs import add_job, add_worker, job_row, page_states, rows

from penstock.documents import pagework
from penstock.documents.pagework import Done, Failed
from penstock.documents.states import JOB, JobStatus
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Step, move

TTL = timedelta(seconds=30)


@pytest.fixture(autouse=True)
async def _worker(database):
    await add_worker(database, "w1")


async def taken(database, pages=3):
    job_id = await add_job(database, pages)
    async with database.transaction() as tx:
        return await pagework.take(tx, job_id, "w1")


async def claimed(database, hold, limit=1):
    async with database.transaction() as tx:
        return await pagework.claim_pages(tx, hold, ttl=TTL, limit=limit)


async def complete(database, page, done=None):
    async with database.transaction() as tx:
        await pagework.complete(tx, page, done or Done(2, 0.9))


async def refused(database, act) -> str:
    with pytest.raises(PenstockError) as refusal:
        async with database.transaction() as tx:
            await act(tx)
    return refusal.value.code.code


class TestTaking:
    async def test_the_job_is_the_workers_and_its_pages_are_queued(self, database):
        hold = await taken(database, 120)
        job = await job_row(database, hold.job_id)
        assert (job["status"], job["worker_id"], job["hold_token"]) == ("PROCESSING", "w1", hold.token)
        assert job["process_started_at"] is not None
        assert set(await page_states(database, hold.job_id)) == {"AI_QUEUED"}
        [worker] = await rows(database, "select active_job_ids from worker_heartbeats")
        assert worker["active_job_ids"] == [hold.job_id]

    async def test_people_hear_of_queued_pages_fifty_at_a_time(self, database):
        hold = await taken(database, 120)
        events = await rows(
            database, "select * from outbox_events where notice = 'pages_batch_update' order by event_id"
        )
        assert [len(event["payload"]["pages"]) for event in events] == [50, 50, 20]
        assert events[0]["payload"]["pages"][0] == {"page_no": 1, "status": "AI_QUEUED"}
        assert {(event["topics"][0], event["merchant_id"]) for event in events} == {(f"job:{hold.job_id}", "m-1")}

    @pytest.mark.parametrize("status", ["SUSPECT", "DEAD"])
    async def test_a_worker_that_is_not_alive_takes_nothing(self, database, status):
        job_id = await add_job(database)
        await add_worker(database, "w1", status)
        assert await refused(database, lambda tx: pagework.take(tx, job_id, "w1")) == "WORKER_NOT_ALIVE"
        assert (await job_row(database, job_id))["status"] == "EVALUATED"

    async def test_a_job_that_is_not_evaluated_is_not_taken(self, database):
        job_id = await add_job(database, status="UPLOADED")
        assert await refused(database, lambda tx: pagework.take(tx, job_id, "w1")) == "STATE_CHANGED"

    async def test_workers_that_take_at_once_take_different_jobs_oldest_first(self, database):
        jobs = [await add_job(database) for _ in range(3)]
        for name in ("w2", "w3", "w4"):
            await add_worker(database, name)

        async def next_for(name):
            async with database.transaction() as tx:
                return await pagework.take_next(tx, name)

        first = await next_for("w1")
        assert first.job_id == jobs[0]
        others = await asyncio.gather(*(next_for(name) for name in ("w2", "w3", "w4")))
        got = [hold.job_id for hold in others if hold]
        assert sorted(got, key=str) == sorted(jobs[1:], key=str)

    async def test_a_job_orphaned_before_it_was_judged_has_its_pages_left_alone(self, database):
        job_id = await add_job(database, status="PROCESSING", worker="w1")
        async with database.transaction() as tx:
            await tx.execute("update pdf_jobs set route = null")
            await pagework.take_up(tx, job_id, "w1")
        assert await page_states(database, job_id) == ["PENDING"] * 3

    async def test_what_was_given_to_a_worker_is_found_until_it_is_gone(self, database):
        hold = await taken(database, 1)
        async with database.transaction() as tx:
            assert await pagework.jobs_for(tx, "w1") == {hold.job_id: True}
        await complete(database, (await claimed(database, hold))[0])
        async with database.transaction() as tx:
            assert await pagework.jobs_for(tx, "w1") == {hold.job_id: False}
            assert await pagework.jobs_for(tx, "w2") == {}


class TestClaiming:
    async def test_pages_come_in_order_and_each_once(self, database):
        hold = await taken(database, 5)
        first, second = await claimed(database, hold, 2), await claimed(database, hold, 9)
        assert [page.number for page in first + second] == [1, 2, 3, 4, 5]
        assert await claimed(database, hold) == []
        assert set(await page_states(database, hold.job_id)) == {"AI_PROCESSING"}

    async def test_claims_at_once_share_the_pages(self, database):
        hold = await taken(database, 30)
        found = await asyncio.gather(*(claimed(database, hold, 4) for _ in range(8)))
        numbers = [page.number for pages in found for page in pages]
        assert sorted(numbers) == list(range(1, 31))

    async def test_a_page_that_a_dead_worker_had_comes_again_without_a_change_of_state(self, database):
        hold = await taken(database, 2)
        await claimed(database, hold)
        async with database.transaction() as tx:
            again = await pagework.take_up(tx, hold.job_id, "w1")
        [page] = await claimed(database, again)
        assert page.number == 1
        history = await rows(database, "select * from state_transitions where to_status = 'AI_PROCESSING'")
        assert len(history) == 1

    async def test_pages_of_people_and_blank_ones_are_passed_over(self, database):
        hold = await taken(database, 3)
        async with database.transaction() as tx:
            await tx.execute("update pages set status = 'HUMAN_QUEUED' where page_number = 1")
            await tx.execute("update pages set status = 'BLANK' where page_number = 2")
        assert [page.number for page in await claimed(database, hold, 3)] == [3]


class TestCompleting:
    async def test_people_hear_what_the_page_gave(self, database):
        hold = await taken(database)
        [page] = await claimed(database, hold)
        await complete(database, page, Done(3, 0.75, {"page_type": "B"}))
        [event] = await rows(database, "select * from outbox_events where notice = 'page_completed'")
        said = {key: event["payload"][key] for key in ("page_no", "status", "skus_found", "confidence")}
        assert said == {"page_no": 1, "status": "AI_COMPLETED", "skus_found": 3, "confidence": 0.75}
        assert (event["topics"], event["merchant_id"]) == ([f"job:{hold.job_id}"], "m-1")
        [row] = await rows(database, "select * from pages where page_number = 1")
        assert (row["status"], row["page_type"], row["processed_by"], row["leased_until"]) == (
            "AI_COMPLETED", "B", "w1", None,
        )  # fmt: skip

    async def test_findings_and_page_stand_or_fall_together(self, database):
        hold = await taken(database)
        [page] = await claimed(database, hold)

        async def write(tx):
            await tx.execute("update pages set needs_review = true")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await complete(database, page, Done(1, write=write))
        [row] = await rows(database, "select status, needs_review from pages where page_number = 1")
        assert row == {"status": "AI_PROCESSING", "needs_review": False}
        await complete(database, page)

    @pytest.mark.parametrize("act", ["complete", "fail", "renew", "claim"])
    @pytest.mark.parametrize("loss", ["cancelled", "orphaned", "given_away", "taken_up_again"])
    async def test_who_lost_the_job_writes_nothing(self, database, loss, act):
        hold = await taken(database)
        [page] = await claimed(database, hold)
        async with database.transaction() as tx:
            if loss == "taken_up_again":
                await pagework.take_up(tx, hold.job_id, "w1")
            elif loss == "given_away":
                await tx.execute("update pdf_jobs set worker_id = 'w2', hold_token = hold_token + 1")
            else:
                target, by = {
                    "cancelled": (JobStatus.CANCELLED, "api"),
                    "orphaned": (JobStatus.ORPHANED, "gateway"),
                }[loss]
                await move(tx, JOB, Step(str(hold.job_id), JobStatus.PROCESSING, target, by=by, trigger="t"))
        acts = {
            "complete": lambda tx: pagework.complete(tx, page, Done(1)),
            "fail": lambda tx: pagework.fail(tx, page, Failed("x"), most_failures=3),
            "renew": lambda tx: pagework.renew(tx, hold, [page], ttl=TTL),
            "claim": lambda tx: pagework.claim_pages(tx, hold, ttl=TTL),
        }
        assert await refused(database, acts[act]) == "LEASE_LOST"
        assert await page_states(database, hold.job_id) == ["AI_PROCESSING", "AI_QUEUED", "AI_QUEUED"]

    async def test_a_page_is_completed_once(self, database):
        hold = await taken(database)
        [page] = await claimed(database, hold)
        await complete(database, page)
        assert await refused(database, lambda tx: pagework.complete(tx, page, Done(1))) == "LEASE_LOST"

    async def test_an_orphaning_waits_for_a_completion_under_way_and_not_the_other_way_round(self, database):
        """The fence is a lock: a page is completed before the job is taken away, or not at all."""
        hold = await taken(database)
        [page] = await claimed(database, hold)
        step = Step(str(hold.job_id), JobStatus.PROCESSING, JobStatus.ORPHANED, by="gateway", trigger="t")

        async def take_away():
            async with database.transaction() as tx:
                await move(tx, JOB, step)

        async with database.transaction() as tx:
            await pagework.complete(tx, page, Done(1))
            taking = asyncio.create_task(take_away())
            async with asyncio.timeout(10):
                while not await rows(database, "select 1 from pg_stat_activity where wait_event_type = 'Lock'"):
                    assert not taking.done()
        await taking
        assert (await page_states(database, hold.job_id))[0] == "AI_COMPLETED"


class TestFailing:
    async def test_a_page_is_tried_again_after_the_others_and_then_is_a_persons(self, database):
        hold = await taken(database, 2)
        order = []
        for _ in range(4):
            [page] = await claimed(database, hold)
            order.append(page.number)
            async with database.transaction() as tx:
                if page.number == 1:
                    await pagework.fail(tx, page, Failed("blurred"), most_failures=3)
                else:
                    await pagework.complete(tx, page, Done(0))
        assert order == [1, 2, 1, 1]
        assert await page_states(database, hold.job_id) == ["HUMAN_QUEUED", "AI_COMPLETED"]
        [event] = await rows(database, "select payload from outbox_events where notice = 'human_needed'")
        assert (event["payload"]["page_no"], event["payload"]["reason"]) == (1, "blurred")

    async def test_a_failure_and_what_follows_are_on_record(self, database):
        hold = await taken(database, 1)
        [page] = await claimed(database, hold)
        async with database.transaction() as tx:
            await pagework.fail(tx, page, Failed("x"), most_failures=3)
        moves = await rows(database, "select to_status from state_transitions where entity_type = 'page' order by id")
        assert [row["to_status"] for row in moves] == ["AI_QUEUED", "AI_PROCESSING", "AI_FAILED", "AI_QUEUED"]


class TestRenewing:
    async def test_a_page_is_held_for_longer_unless_somebody_freed_it(self, database):
        hold = await taken(database)
        [page] = await claimed(database, hold)
        async with database.transaction() as tx:
            await tx.execute("update pages set leased_until = now() - interval '1 s' where id = %s", (page.lease.key,))
            await pagework.renew(tx, hold, [page], ttl=TTL)
        [row] = await rows(database, "select leased_until > now() as held from pages where page_number = 1")
        assert row["held"]
        async with database.transaction() as tx:
            await tx.execute("update pages set leased_until = null")
        assert await refused(database, lambda tx: pagework.renew(tx, hold, [page], ttl=TTL)) == "LEASE_LOST"
