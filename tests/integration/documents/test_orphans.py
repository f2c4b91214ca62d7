"""Jobs of dead workers: paused, rested, given to the living; once each, and not more than three times a day."""

import asyncio
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY
from tests.support.page_jobs import add_job, add_worker, age_orphan, job_row, page_states, rows, scan, scheduler

from penstock.documents import pagework
from penstock.documents.orphan_settings import OrphanSettings
from penstock.documents.orphans import OrphanScan, orphan
from penstock.documents.requeue import Wish, hand_over, requeue
from penstock.kernel import error_codes, leases
from penstock.kernel.errors import Language, PenstockError
from penstock.kernel.leases import Leasable
from penstock.kernel.scheduler import Fence

TTL = timedelta(seconds=30)
BY_HAND = Wish("manual", requested_by="olga")


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def held_job(database, worker="a", pages=3):
    """A job in the middle: page 1 is done, page 2 is in hand."""
    await add_worker(database, worker)
    job_id = await add_job(database, pages)
    async with database.transaction() as tx:
        hold = await pagework.take(tx, job_id, worker)
        [first] = await pagework.claim_pages(tx, hold, ttl=TTL)
        await pagework.complete(tx, first, pagework.Done(1))
        [second] = await pagework.claim_pages(tx, hold, ttl=TTL)
    return hold, second


async def orphaned_job(database, rested=301):
    job_id = await add_job(database, status="ORPHANED", worker="a")
    await age_orphan(database, job_id, rested)
    return job_id


async def requeued_before(database, job_id, times, hours=1):
    async with database.transaction() as tx:
        for _ in range(times):
            await tx.execute(
                "insert into job_requeues (job_id, method, resumed_from, requested_by, requeued_at)"
                " values (%s, 'auto', 0, 'gateway', now() - make_interval(hours => %s))",
                (job_id, hours),
            )


async def by_hand(database, job_id, wish=BY_HAND):
    async with database.transaction() as tx:
        return await requeue(tx, job_id, wish, OrphanSettings())


class TestFinding:
    async def test_a_dead_workers_job_is_paused_and_its_pages_are_free(self, database):
        hold, _ = await held_job(database)
        await add_worker(database, "a", "DEAD")
        before = counted("gateway_orphan_detected_total")
        await scan(database)
        job = await job_row(database, hold.job_id)
        assert (job["status"], job["user_status"], job["checkpoint_page"]) == ("ORPHANED", "failed", 1)
        assert job["orphaned_at"] is not None
        assert job["error_codes"] == ["JOB_ORPHANED"]
        assert await rows(database, "select 1 from pages where leased_until is not null") == []
        assert (await rows(database, "select active_job_ids from worker_heartbeats"))[0]["active_job_ids"] == []
        assert counted("gateway_orphan_detected_total") == before + 1

    async def test_a_worker_that_is_back_before_the_scan_acts_keeps_its_job(self, database):
        hold, _ = await held_job(database)
        async with database.transaction() as tx:
            assert await orphan(tx, hold.job_id, TTL, Language.EN) is None
        assert (await job_row(database, hold.job_id))["status"] == "PROCESSING"

    async def test_people_are_told_why_and_what_to_do(self, database):
        hold, _ = await held_job(database)
        await add_worker(database, "a", "DEAD")
        await scan(database)
        [event] = await rows(database, "select * from outbox_events where event_type = 'job.orphaned'")
        said = event["payload"]
        assert (event["notice"], event["topics"], said["error_code"]) == (
            "job_failed", [f"job:{hold.job_id}"], "JOB_ORPHANED",
        )  # fmt: skip
        assert said["message"]
        assert said["action_hint"]
        assert said["job_id"] == str(hold.job_id)
        assert said["sentences"]["message"]["zh"] == error_codes.JOB_ORPHANED.message.zh
        assert said["trigger"] == "heartbeat_scan"

    @pytest.mark.parametrize("status", ["EVALUATING", "PROCESSING"])
    async def test_jobs_under_way_are_found(self, database, status):
        await add_worker(database, "a", "DEAD")
        job_id = await add_job(database, status=status, worker="a")
        await scan(database)
        assert (await job_row(database, job_id))["status"] == "ORPHANED"

    @pytest.mark.parametrize("status", ["UPLOADED", "EVALUATED", "DEGRADED_HUMAN", "CANCELLED", "FULL_IMPORTED"])
    async def test_other_jobs_are_left_alone(self, database, status):
        await add_worker(database, "a", "DEAD")
        job_id = await add_job(database, status=status, worker="a")
        await scan(database)
        assert (await job_row(database, job_id))["status"] == status

    @pytest.mark.parametrize(("worker", "status"), [("a", "ALIVE"), ("a", "SUSPECT"), (None, "DEAD")])
    async def test_jobs_of_the_living_the_suspect_and_of_nobody_are_left_alone(self, database, worker, status):
        await add_worker(database, "a", status)
        job_id = await add_job(database, status="PROCESSING", worker=worker)
        await scan(database)
        assert (await job_row(database, job_id))["status"] == "PROCESSING"

    async def test_a_worker_that_nobody_knows_is_given_the_time_of_a_silent_one(self, database):
        fresh = await add_job(database, status="PROCESSING", worker="stranger")
        old = await add_job(database, status="PROCESSING", worker="stranger")
        async with database.transaction() as tx:
            await tx.execute("update pdf_jobs set updated_at = now() - interval '91 s' where job_id = %s", (old,))
        await scan(database)
        assert (await job_row(database, fresh))["status"] == "PROCESSING"
        assert (await job_row(database, old))["status"] == "ORPHANED"

    async def test_pages_that_nobody_renewed_are_free_again(self, database):
        await held_job(database)
        async with database.transaction() as tx:
            await tx.execute("update pages set leased_until = now() - interval '1 s' where leased_until is not null")
        await scan(database)
        assert await rows(database, "select 1 from pages where leased_until is not null") == []


class TestRequeuing:
    async def test_after_the_rest_a_living_worker_goes_on_where_the_dead_one_was(self, database):
        hold, _ = await held_job(database)
        await add_worker(database, "a", "DEAD")
        await add_worker(database, "b")
        await scan(database)
        await age_orphan(database, hold.job_id, 299)
        await scan(database)
        assert (await job_row(database, hold.job_id))["status"] == "ORPHANED"
        await age_orphan(database, hold.job_id, 300)
        before = counted("gateway_orphan_requeued_total", method="auto")
        await scan(database)
        job = await job_row(database, hold.job_id)
        assert (job["status"], job["worker_id"], job["orphaned_at"], job["error_codes"]) == (
            "PROCESSING", "b", None, [],
        )  # fmt: skip
        [note] = await rows(database, "select * from job_requeues")
        assert (note["method"], note["from_worker"], note["to_worker"], note["resumed_from"]) == ("auto", "a", "b", 1)
        [event] = await rows(database, "select payload from outbox_events where event_type = 'job.requeued'")
        assert event["payload"] == {"method": "auto", "from_worker": "a", "to_worker": "b", "resume_from": 1}
        assert counted("gateway_orphan_requeued_total", method="auto") == before + 1
        async with database.transaction() as tx:
            assert await pagework.jobs_for(tx, "b") == {hold.job_id: True}
            again = await pagework.take_up(tx, hold.job_id, "b")
            pages = await pagework.claim_pages(tx, again, ttl=TTL, limit=9)
        assert [page.number for page in pages] == [2, 3]

    async def test_the_one_with_the_fewest_jobs_gets_it(self, database):
        for name, jobs in (("b", 2), ("c", 1), ("d", 3)):
            await add_worker(database, name)
            for _ in range(jobs):
                await add_job(database, status="PROCESSING", worker=name)
        job_id = await orphaned_job(database)
        await scan(database)
        assert (await job_row(database, job_id))["worker_id"] == "c"

    async def test_several_orphans_are_spread(self, database):
        jobs = [await orphaned_job(database) for _ in range(4)]
        await add_worker(database, "b")
        await add_worker(database, "c")
        await scan(database)
        got = sorted([(await job_row(database, job_id))["worker_id"] for job_id in jobs])
        assert got == ["b", "b", "c", "c"]

    @pytest.mark.parametrize(("status", "takes_jobs"), [("SUSPECT", True), ("DEAD", True), ("ALIVE", False)])
    async def test_without_anybody_for_it_the_job_waits_and_is_tried_again(self, database, status, takes_jobs):
        job_id = await orphaned_job(database)
        await add_worker(database, "b", status, takes_jobs=takes_jobs)
        await scan(database)
        assert (await job_row(database, job_id))["status"] == "ORPHANED"
        assert await rows(database, "select 1 from job_requeues") == []
        await add_worker(database, "c")
        await scan(database)
        assert (await job_row(database, job_id))["worker_id"] == "c"

    async def test_the_fourth_time_of_a_day_it_stays_where_it_is(self, database):
        await add_worker(database, "b")
        job_id = await orphaned_job(database)
        await requeued_before(database, job_id, 3, hours=23)
        await scan(database)
        assert (await job_row(database, job_id))["status"] == "ORPHANED"

    async def test_yesterdays_do_not_count(self, database):
        await add_worker(database, "b")
        job_id = await orphaned_job(database)
        await requeued_before(database, job_id, 3, hours=25)
        await scan(database)
        assert (await job_row(database, job_id))["status"] == "PROCESSING"


class TestRacing:
    async def test_two_schedulers_and_an_operator_at_once_requeue_once(self, database):
        await add_worker(database, "b")
        job_id = await orphaned_job(database)
        first, second = scheduler(database, "s1"), scheduler(database, "s2")
        await first.enrol()

        async def one_scan(who):
            for task in await who.start_due():
                await task

        async def operator():
            try:
                await by_hand(database, job_id)
            except PenstockError as late:
                assert late.code.code == "JOB_NOT_ORPHANED"

        await asyncio.gather(one_scan(first), one_scan(second), operator(), operator())
        assert (await job_row(database, job_id))["status"] == "PROCESSING"
        assert len(await rows(database, "select 1 from job_requeues")) == 1
        assert len(await rows(database, "select 1 from outbox_events where event_type = 'job.requeued'")) == 1

    async def test_a_scan_whose_duty_was_taken_over_writes_nothing(self, database):
        hold, _ = await held_job(database)
        await add_worker(database, "a", "DEAD")
        rested = await orphaned_job(database)
        await add_worker(database, "b")
        made = OrphanScan(database, OrphanSettings(), timedelta(seconds=90), Language.EN)
        duty = Leasable("schedule", "name", ready="true", order="name")
        async with database.transaction() as tx:
            await tx.execute("insert into schedule (name) values ('documents.orphans')")
            [lease] = await leases.claim(tx, duty, owner="s1", ttl=TTL)
            await tx.execute("update schedule set lease_token = lease_token + 1, lease_owner = 's2'")
        steps = [made.run, partial(made._pause, job_id=hold.job_id), partial(made._resume, job_id=rested)]
        for step in steps:
            with pytest.raises(PenstockError, match="LEASE_LOST"):
                await step(Fence(duty, lease))
        assert (await job_row(database, hold.job_id))["status"] == "PROCESSING"
        assert (await job_row(database, rested))["status"] == "ORPHANED"

    async def test_a_worker_that_is_back_before_the_scan_keeps_its_job(self, database):
        hold, page = await held_job(database)
        await add_worker(database, "a", "DEAD")
        await add_worker(database, "a", "ALIVE")
        await scan(database)
        async with database.transaction() as tx:
            await pagework.complete(tx, page, pagework.Done(1))
        assert (await page_states(database, hold.job_id))[1] == "AI_COMPLETED"

    async def test_a_worker_that_is_back_during_the_rest_has_lost_it_and_may_get_it_anew(self, database):
        hold, page = await held_job(database)
        await add_worker(database, "a", "DEAD")
        await scan(database)
        await add_worker(database, "a", "ALIVE")
        with pytest.raises(PenstockError, match="LEASE_LOST"):
            async with database.transaction() as tx:
                await pagework.complete(tx, page, pagework.Done(1))
        await age_orphan(database, hold.job_id, 301)
        await scan(database)
        assert (await job_row(database, hold.job_id))["worker_id"] == "a"
        with pytest.raises(PenstockError, match="LEASE_LOST"):
            async with database.transaction() as tx:
                await pagework.complete(tx, page, pagework.Done(1))
        with pytest.raises(PenstockError, match="LEASE_LOST"):
            async with database.transaction() as tx:
                await pagework.claim_pages(tx, hold, ttl=TTL)
        async with database.transaction() as tx:
            again = await pagework.take_up(tx, hold.job_id, "a")
            pages = await pagework.claim_pages(tx, again, ttl=TTL, limit=9)
        assert [each.number for each in pages] == [2, 3]


class TestByHand:
    async def test_no_rest_is_needed(self, database):
        await add_worker(database, "b")
        job_id = await orphaned_job(database, rested=1)
        given = await by_hand(database, job_id)
        assert (given.to_worker, given.requeues_today) == ("b", 1)
        [note] = await rows(database, "select method, requested_by from job_requeues")
        assert note == {"method": "manual", "requested_by": "olga"}

    async def test_automatic_ones_count_against_it_and_it_against_them(self, database):
        await add_worker(database, "b")
        job_id = await orphaned_job(database)
        await requeued_before(database, job_id, 3)
        with pytest.raises(PenstockError, match="REQUEUE_LIMIT"):
            await by_hand(database, job_id)
        given = await by_hand(database, job_id, Wish("manual", "olga", force=True))
        assert given.requeues_today == 4

    @pytest.mark.parametrize("status", ["EVALUATED", "PROCESSING", "CANCELLED", "FULL_IMPORTED"])
    async def test_a_job_that_is_no_orphan_is_refused(self, database, status):
        await add_worker(database, "b")
        job_id = await add_job(database, status=status)
        with pytest.raises(PenstockError, match="JOB_NOT_ORPHANED"):
            await by_hand(database, job_id, Wish("manual", "olga", force=True))

    async def test_no_such_job_and_no_worker_are_said(self, database):
        with pytest.raises(PenstockError, match="JOB_NOT_FOUND"):
            await by_hand(database, uuid4())
        job_id = await orphaned_job(database)
        with pytest.raises(PenstockError, match="NO_LIVING_WORKER"):
            await by_hand(database, job_id)

    async def test_the_worker_named_must_be_alive_and_take_jobs(self, database):
        job_id = await orphaned_job(database)
        await add_worker(database, "b")
        await add_worker(database, "dead", "DEAD")
        await add_worker(database, "scheduler", takes_jobs=False)
        for name in ("dead", "scheduler", "nobody"):
            with pytest.raises(PenstockError, match="WORKER_NOT_ALIVE") as refusal:
                await by_hand(database, job_id, Wish("manual", "olga", target=name))
            assert refusal.value.details["alive"] == ["b"]
        assert (await by_hand(database, job_id, Wish("manual", "olga", target="b"))).to_worker == "b"


class TestLeavingInOrder:
    async def test_the_job_goes_to_another_without_becoming_an_orphan(self, database):
        hold, page = await held_job(database)
        await add_worker(database, "b")
        async with database.transaction() as tx:
            assert await hand_over(tx, hold) == "b"
        job = await job_row(database, hold.job_id)
        assert (job["status"], job["worker_id"]) == ("PROCESSING", "b")
        assert await rows(database, "select 1 from job_requeues") == []
        with pytest.raises(PenstockError, match="LEASE_LOST"):
            async with database.transaction() as tx:
                await pagework.complete(tx, page, pagework.Done(1))

    async def test_one_who_has_lost_it_cannot_give_it_away(self, database):
        hold, _ = await held_job(database)
        await add_worker(database, "b")
        async with database.transaction() as tx:
            await hand_over(tx, hold)
        with pytest.raises(PenstockError, match="LEASE_LOST"):
            async with database.transaction() as tx:
                await hand_over(tx, hold)
        assert len(await rows(database, "select 1 from outbox_events where event_type = 'job.handed_over'")) == 1

    async def test_without_another_it_stays_and_will_be_found(self, database):
        hold, _ = await held_job(database)
        async with database.transaction() as tx:
            assert await hand_over(tx, hold) is None
        await add_worker(database, "a", "DEAD")
        await scan(database)
        assert (await job_row(database, hold.job_id))["status"] == "ORPHANED"
