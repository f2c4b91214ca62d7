"""Workers die, sleep and leave in the middle of jobs: every page is done, recorded once, and at most one is repeated.

Two schedulers run throughout. Nobody waits for a minute of silence here: the last sign of life of a process that
was killed or paused is set back by hand, which it cannot contradict.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from penstock.documents.orphan_settings import OrphanSettings
from penstock.documents.requeue import Requeued, Wish, requeue
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from tests.chaos.stage import Stage
from tests.support.page_jobs import add_job

SCHEDULERS = ("s1", "s2")
_QUICK = {
    "GW_HEARTBEAT_INTERVAL_SEC": "0.5",
    "GW_HEARTBEAT_SUSPECT_SEC": "5",
    "GW_HEARTBEAT_TTL_SEC": "6",
    "GW_ORPHAN_SCAN_INTERVAL_SEC": "0.3",
    "GW_ORPHAN_REQUEUE_COOLDOWN_SEC": "0.5",
    "GW_CHECKPOINT_INTERVAL": "3",
    "GW_PAGE_LEASE_SEC": "3",
    "PENSTOCK_SCHEDULER_TICK_SECONDS": "0.1",
}


class Hospital(Stage):
    """Workers that copy pages, and what can be asked about their jobs."""

    module = "tests.chaos.page_actors"

    def environment(self, name: str) -> dict[str, str]:
        return super().environment(name) | _QUICK

    def clear(self) -> None:
        with psycopg.connect(self.postgres.url) as connection:
            connection.execute(
                "create table if not exists page_worked (nonce text primary key, job_id uuid, page_no int,"
                " worker text, at timestamptz default clock_timestamp())"
            )
            connection.execute(
                "truncate pdf_jobs, page_worked, worker_heartbeats, state_transitions, outbox_events cascade"
            )

    def add_job(self, pages: int) -> UUID:
        async def add() -> UUID:
            database = Database(self.postgres.url, name="test")
            await database.open()
            try:
                return await add_job(database, pages)
            finally:
                await database.close()

        return asyncio.run(add())

    def requeue(self, job_id: UUID, wish: Wish) -> Requeued:
        async def order() -> Requeued:
            database = Database(self.postgres.url, name="test")
            await database.open()
            try:
                async with database.transaction() as tx:
                    return await requeue(tx, job_id, wish, OrphanSettings())
            finally:
                await database.close()

        return asyncio.run(order())

    def start_workers(self, *names: str, **environment: str) -> None:
        """All of them are there, with nothing to do yet, before a job comes."""
        for name in names:
            self.start(name, "worker", **environment)
        alive = (
            "select count(*) from worker_heartbeats where takes_jobs and status = 'ALIVE' and worker_id = any(array{})"
        )
        self.wait_for(lambda: self.one(alive.format(list(names))) == len(names), 30, f"{names} are alive")

    def holder(self, job_id: UUID, *, after: int) -> str:
        """Who has the job, once more than so many pages are done."""
        self.wait_for(
            lambda: self.status(job_id) == "PROCESSING" and self.done_pages(job_id) > after, 30, f"{after} pages done"
        )
        return self.one(f"select worker_id from pdf_jobs where job_id = '{job_id}'")

    def silence(self, name: str) -> None:
        """As if it had been silent for an hour; it must not be able to report."""
        with psycopg.connect(self.postgres.url) as connection:
            connection.execute(
                "update worker_heartbeats set last_heartbeat = now() - interval '1 hour' where worker_id = %s", (name,)
            )
            connection.execute("update schedule set next_run_at = now() where leased_until is null")

    def one(self, query: str):
        found = self.query(query)
        return found[0][0] if found else None

    def done_pages(self, job_id: UUID) -> int:
        return self.one(f"select count(*) from pages where job_id = '{job_id}' and status = 'AI_COMPLETED'")

    def status(self, job_id: UUID) -> str:
        return self.one(f"select status from pdf_jobs where job_id = '{job_id}'")

    def until(self, job_id: UUID, status: str) -> None:
        self.wait_for(lambda: self.status(job_id) == status, 30, f"the job is {status}")

    def verdict(self, job_id: UUID, pages: int, *, repeats: int) -> None:
        """Each page is completed, recorded and announced once; no more than `repeats` were worked on twice."""
        expected = dict.fromkeys(range(1, pages + 1), 1)
        for said, query in {
            "records": f"select page_number from skus where job_id = '{job_id}'",
            "states": f"select page_number from pages where job_id = '{job_id}' and status = 'AI_COMPLETED'",
            "events": "select (payload->>'page_no')::int from outbox_events where notice = 'page_completed'"
            f" and payload->>'job_id' = '{job_id}'",
        }.items():
            assert Counter(number for (number,) in self.query(query)) == expected, said
        worked = Counter(
            number for (number,) in self.query(f"select page_no from page_worked where job_id = '{job_id}'")
        )
        assert set(worked) == set(expected)
        assert worked.total() <= pages + repeats, worked

    def walk(self, job_id: UUID) -> list[str]:
        found = self.query(
            f"select to_status from state_transitions where entity_type = 'job' and entity_id = '{job_id}' order by id"
        )
        return [status for (status,) in found]


@pytest.fixture(scope="module")
def servers(module_home: Path) -> Iterator[Hospital]:
    made = Hospital(module_home)
    made.open()
    yield made
    made.close()


@pytest.fixture
def hospital(servers: Hospital) -> Iterator[Hospital]:
    """Nobody but two schedulers, which stay on from test to test."""
    servers.clear()
    for name in SCHEDULERS:
        if name not in servers.actors or servers.actors[name].poll() is not None:
            servers.start(name, "scheduler")
    yield servers
    for name in set(servers.actors) - set(SCHEDULERS):
        servers.kill(name)
        del servers.actors[name]


class TestAWorkerDies:
    def test_another_goes_on_where_it_was_though_redis_lost_everything(self, hospital: Hospital):
        hospital.start_workers("a", "b")
        job_id = hospital.add_job(15)
        victim = hospital.holder(job_id, after=4)
        hospital.kill(victim)
        done = hospital.done_pages(job_id)
        hospital.flush_redis()
        hospital.silence(victim)
        hospital.until(job_id, "FULL_IMPORTED")
        hospital.verdict(job_id, 15, repeats=1)
        assert hospital.walk(job_id) == ["PROCESSING", "ORPHANED", "PROCESSING", "FULL_IMPORTED"]
        [other] = {"a", "b"} - {victim}
        assert hospital.query("select method, from_worker, to_worker, resumed_from from job_requeues") == [
            ("auto", victim, other, done)
        ]
        assert hospital.one("select checkpoint_page from pdf_jobs") == 15

    def test_again_and_again_until_only_an_operator_may(self, hospital: Hospital):
        hospital.start_workers(*(f"w{number}" for number in range(5)))
        job_id = hospital.add_job(24)
        done = 0
        for _ in range(4):
            victim = hospital.holder(job_id, after=done)
            hospital.kill(victim)
            hospital.silence(victim)
            done = hospital.done_pages(job_id)
        hospital.until(job_id, "ORPHANED")
        scans = "select last_ended_at from schedule where name = 'documents.orphans'"
        for _ in range(4):  # the cool-down is over, and it was looked at again
            before = hospital.one(scans)
            hospital.wait_for(lambda before=before: hospital.one(scans) != before, 10, "another scan")
        assert hospital.status(job_id) == "ORPHANED"
        with pytest.raises(PenstockError, match="REQUEUE_LIMIT"):
            hospital.requeue(job_id, Wish("manual", "olga"))
        hospital.requeue(job_id, Wish("manual", "olga", force=True))
        hospital.until(job_id, "FULL_IMPORTED")
        hospital.verdict(job_id, 24, repeats=4)
        methods = [method for (method,) in hospital.query("select method from job_requeues order by id")]
        assert methods == ["auto", "auto", "auto", "manual"]


class TestAWorkerSleeps:
    def test_it_cannot_write_when_it_wakes_up(self, hospital: Hospital):
        hospital.start_workers("a", "b", PAGE_SECONDS="0.3")
        job_id = hospital.add_job(8)
        sleeper = hospital.holder(job_id, after=1)
        hospital.pause(sleeper)
        hospital.silence(sleeper)
        awake = f"select count(*) from page_worked where worker <> '{sleeper}'"
        hospital.wait_for(lambda: hospital.one(awake) > 0, 30, "the other works on the job")
        hospital.resume(sleeper)
        hospital.until(job_id, "FULL_IMPORTED")
        hospital.verdict(job_id, 8, repeats=1)
        late = hospital.query(
            "select t.* from state_transitions t, job_requeues r"
            f" where t.entity_type = 'page' and t.operator = '{sleeper}' and t.timestamp > r.requeued_at"
        )
        assert late == []


class TestAWorkerLeaves:
    def test_told_to_stop_it_ends_its_page_and_gives_the_job_on(self, hospital: Hospital):
        hospital.start_workers("a", "b")
        job_id = hospital.add_job(15)
        leaver = hospital.holder(job_id, after=2)
        hospital.actors[leaver].terminate()
        assert hospital.actors[leaver].wait(20) == 0
        hospital.until(job_id, "FULL_IMPORTED")
        hospital.verdict(job_id, 15, repeats=0)
        assert hospital.walk(job_id) == ["PROCESSING", "FULL_IMPORTED"]
        assert {worker for (worker,) in hospital.query("select distinct worker from page_worked")} == {"a", "b"}


class TestKilledAt:
    def test_any_point_of_a_workers_round_costs_a_page_at_the_most(self, hospital: Hospital):
        points = ["page.settled", "page.completed", "checkpoint.saved"]
        for name in SCHEDULERS:  # or the first to die might leave its job to one that is about to
            hospital.kill(name)
        jobs = [hospital.add_job(8) for _ in points]
        dying = [
            hospital.start(f"w-{point}", "worker", GW_JOBS_PER_WORKER="1", PENSTOCK_FAILPOINT=f"{point}=kill@2")
            for point in points
        ]
        assert [process.wait(30) for process in dying] == [-9, -9, -9]
        hospital.start_workers("b", GW_JOBS_PER_WORKER="3")
        for point in points:
            hospital.silence(f"w-{point}")
        for name in SCHEDULERS:
            hospital.start(name, "scheduler")
        for job_id in jobs:
            hospital.until(job_id, "FULL_IMPORTED")
            hospital.verdict(job_id, 8, repeats=1)
        assert hospital.one("select count(*) from job_requeues") == 3

    def test_any_point_of_a_scan_leaves_the_job_to_the_next_scheduler(self, hospital: Hospital):
        for name in SCHEDULERS:
            hospital.kill(name)
        hospital.start_workers("a", "b")
        job_id = hospital.add_job(8)
        victim = hospital.holder(job_id, after=1)
        hospital.kill(victim)
        hospital.silence(victim)
        for point in ("job.orphaning", "job.requeuing"):
            assert hospital.start(f"s-{point}", "scheduler", PENSTOCK_FAILPOINT=f"{point}=kill").wait(30) == -9
        hospital.start("s3", "scheduler")
        hospital.until(job_id, "FULL_IMPORTED")
        hospital.verdict(job_id, 8, repeats=1)
        assert hospital.walk(job_id) == ["PROCESSING", "ORPHANED", "PROCESSING", "FULL_IMPORTED"]
        assert hospital.one("select count(*) from job_requeues") == 1
