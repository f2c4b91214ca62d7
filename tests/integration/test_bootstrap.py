"""Opening a role: what is missing or wrong is a sentence before anything runs; the parts fit together."""

from datetime import timedelta

import pytest
from tests.support.pdfs import document

from penstock.bootstrap import load_settings, started
from penstock.kernel.db import fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.retention import history
from penstock.kernel.scheduler import Scheduler
from penstock.kernel.settings import SettingsError
from penstock.kernel.statemachine import Step, enter
from penstock.kernel.workers import WORKER, Heartbeat, WorkerStatus


async def open_role(role: str) -> None:
    async with started(load_settings(), role=role):
        pass


class TestRefusing:
    @pytest.mark.parametrize("name", ["PENSTOCK_DATABASE_URL", "PENSTOCK_REDIS_URL"])
    async def test_a_server_that_is_not_named_is_asked_for(self, environment, name):
        environment.delenv(name)
        with pytest.raises(SettingsError, match=f"{name} is not set.*penstock up"):
            await open_role("worker")

    async def test_a_store_that_is_none_is_refused(self, environment):
        environment.setenv("PENSTOCK_STORE_URL", "ftp://x")
        with pytest.raises(SettingsError, match=r"PENSTOCK_STORE_URL.*file://"):
            await open_role("worker")

    async def test_only_the_role_that_checks_tokens_needs_a_key(self, environment):
        environment.delenv("PENSTOCK_JWT_SECRET")
        await open_role("worker")
        with pytest.raises(SettingsError, match="PENSTOCK_JWT_SECRET or PENSTOCK_JWT_JWKS_URL"):
            await open_role("serve")

    @pytest.mark.parametrize("role", ["serve", "worker"])
    async def test_a_bucket_that_nobody_signs_for_is_refused(self, environment, role):
        environment.setenv("DIRECT_BUCKET_URL", "gs://bucket")
        with pytest.raises(SettingsError, match="DIRECT_SERVICE_ACCOUNT_FILE"):
            await open_role(role)


class TestDuties:
    async def test_every_duty_of_the_product_runs(self, environment):
        async with started(load_settings(), role="scheduler") as parts:
            scheduler = Scheduler(parts.database, parts.duties(), parts.settings.scheduler, owner="s")
            await scheduler.enrol()
            tasks = await scheduler.start_due()
            assert len(tasks) == len(parts.duties())
            for task in tasks:
                await task
            async with parts.database.transaction() as tx:
                row = await fetch_one(
                    tx,
                    "select count(*) as n, count(last_error) as failed from schedule where last_ended_at is not null",
                )
        assert (row["n"], row["failed"]) == (len(tasks), 0)

    async def test_old_changes_of_state_move_to_the_store_and_are_still_found(self, environment):
        async with started(load_settings(), role="scheduler") as parts:
            async with parts.database.transaction() as tx:
                await enter(tx, WORKER, Step("old", None, WorkerStatus.ALIVE, by="worker", trigger="started"))
                await tx.execute(
                    'update state_transitions set "timestamp" = now() - %s::interval', (timedelta(days=91),)
                )
            scheduler = Scheduler(parts.database, parts.duties(), parts.settings.scheduler, owner="s")
            await scheduler.enrol()
            for task in await scheduler.start_due():
                await task
            async with parts.database.transaction() as tx:
                row = await fetch_one(tx, "select count(*) as online from state_transitions")
            found = await history(parts.database, parts.store, "worker", "old")
        assert row["online"] == 0
        assert [each["to_status"] for each in found] == ["ALIVE"]


class TestStreams:
    async def test_an_event_with_a_notice_reaches_its_merchants_dashboard_and_the_operators(self, environment):
        async with started(load_settings(), role="serve") as parts:
            async with parts.database.transaction() as tx:
                for notice in ("job_failed", None):
                    await announce(
                        tx,
                        Event(
                            "job.rejected",
                            "job",
                            "j1",
                            {"why": "x"},
                            merchant_id="m1",
                            notice=notice,
                            topics=("job:j1",),
                        ),
                    )
            while await parts.relay().relay_once():
                pass
            lengths = [await parts.redis.xlen(parts.keys.stream(t)) for t in ("job:j1", "dashboard", "dashboard:m1")]
            await parts.redis.flushall()
        assert lengths == [1, 1, 1]

    async def test_operators_see_processes_come_and_go(self, environment):
        async with started(load_settings(), role="worker") as parts:
            heartbeat = Heartbeat(parts.database, parts.redis, parts.keys, parts.settings.workers, "w1")
            await heartbeat.report()
            await heartbeat.leave()
            while await parts.relay().relay_once():
                pass
            entries = await parts.redis.xrange(parts.keys.stream("dashboard"))
            await parts.redis.flushall()
        assert [fields[b"n"] for _, fields in entries] == [b"worker_alive", b"worker_dead"]


class TestReadingPdfs:
    @pytest.mark.parametrize("role", ["serve", "worker"])
    async def test_roles_that_read_pdfs_have_the_processes_for_it(self, environment, tmp_path, role):
        path = tmp_path / "a.pdf"
        path.write_bytes(document())
        async with started(load_settings(), role=role) as parts:
            assert (await parts.examiner.inspect(path)).ok
        with pytest.raises(PenstockError, match="SANDBOX_UNAVAILABLE"):
            await parts.examiner.inspect(path)

    async def test_other_roles_start_none(self, environment, tmp_path):
        path = tmp_path / "a.pdf"
        path.write_bytes(document())
        async with started(load_settings(), role="scheduler") as parts:
            with pytest.raises(PenstockError, match="SANDBOX_UNAVAILABLE"):
                await parts.examiner.inspect(path)
