"""Cancelling: once, by those who may, and nothing goes on afterwards."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.jobs import fresh

from penstock.documents import Drawing, assert_job_running, is_over, page_image, reactions, remove_files
from penstock.documents.settings import DocumentSettings
from penstock.documents.states import JOB, JobStatus
from penstock.kernel import error_codes, leases
from penstock.kernel.errors import PenstockError
from penstock.kernel.leases import Leasable, Lease
from penstock.kernel.outbox import stored
from penstock.pdf import PictureFormat

PAGES = Leasable("pages", "id", ready="true", order="id")
OPEN = [state for state in JobStatus if state not in JOB.terminal]


class TestTheEndOfAStream:
    async def test_a_job_is_over_when_its_last_event_is_out_and_not_before(self, office, database):
        """Else a client that comes back between the two would be told that it has heard everything."""
        job_id = UUID((await office.job())["job_id"])
        assert not await is_over(database, job_id, "UPLOADED")
        await office.cancel(str(job_id))
        assert not await is_over(database, job_id, "CANCELLED")
        await office.rows("update outbox_events set relayed_at = now() returning 1")
        assert await is_over(database, job_id, "CANCELLED")


class TestCancelling:
    @pytest.mark.parametrize("status", OPEN)
    async def test_a_job_that_has_not_ended_can_be_cancelled(self, office, status):
        job_id = (await office.job())["job_id"]
        await office.rows("update pdf_jobs set status = %s where job_id = %s returning 1", status, job_id)
        answer = await office.cancel(job_id, role="operator", merchant="ops")
        assert (answer.status_code, answer.json()["status"], answer.json()["user_status"]) == (
            200,
            "CANCELLED",
            "failed",
        )
        assert answer.json()["updated_at"] > answer.json()["created_at"]
        [event] = await office.rows("select * from outbox_events where event_type = 'job.cancelled'")
        assert event["notice"] == "job_failed"
        assert event["topics"] == [f"job:{job_id}"]
        assert event["payload"]["error_code"] == "JOB_CANCELLED"
        assert event["payload"]["from"] == status

    @pytest.mark.parametrize("language", ["zh", "en"])
    @pytest.mark.parametrize("status", sorted(JOB.terminal))
    async def test_one_that_has_ended_cannot(self, office, status, language):
        job_id = (await office.job())["job_id"]
        await office.rows("update pdf_jobs set status = %s where job_id = %s returning 1", status, job_id)
        office.client.headers["Accept-Language"] = language
        answer = await office.cancel(job_id)
        body = answer.json()
        assert (answer.status_code, body["code"], body["severity"]) == (409, "JOB_TERMINAL", "warning")
        assert body["details"] == {"job_id": job_id, "status": status}
        assert body["message"] == getattr(error_codes.JOB_TERMINAL.message, language)

    async def test_an_orphaned_job_is_the_operators_to_cancel(self, office):
        job_id = (await office.job())["job_id"]
        await office.rows("update pdf_jobs set status = 'ORPHANED' where job_id = %s returning 1", job_id)
        answer = await office.cancel(job_id)
        assert (answer.status_code, answer.json()["code"]) == (403, "ROLE_DENIED")
        assert (await office.cancel(job_id, role="operator", merchant="ops")).status_code == 200

    async def test_annotators_cannot_cancel(self, office):
        job_id = (await office.job())["job_id"]
        assert (await office.cancel(job_id, role="annotator")).json()["code"] == "ROLE_DENIED"

    async def test_of_many_at_once_one_wins(self, office):
        job_id = (await office.job())["job_id"]
        answers = await asyncio.gather(*(office.cancel(job_id) for _ in range(6)))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409, 409]
        assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"JOB_TERMINAL"}
        events = await office.rows("select 1 from outbox_events where event_type = 'job.cancelled'")
        assert len(events) == 1


class TestWorkInHand:
    async def test_whoever_holds_a_page_has_lost_it(self, office):
        job_id = (await office.job(fresh(2)))["job_id"]
        [row] = await office.rows(
            "update pages set lease_owner = 'w', leased_until = now() + interval '1 min', lease_token = 7"
            " where job_id = %s and page_number = 1 returning *",
            job_id,
        )
        await office.cancel(job_id)
        async with office.database.transaction() as tx:
            with pytest.raises(PenstockError) as lost:
                await leases.settle(tx, PAGES, Lease(row["id"], 7, row), {"worker_id": "w"})
        assert lost.value.code is error_codes.LEASE_LOST

    async def test_the_pipeline_is_told_to_stop(self, office):
        job_id = UUID((await office.job())["job_id"])
        async with office.database.transaction() as tx:
            assert await assert_job_running(tx, job_id) is JobStatus.UPLOADED
        await office.cancel(str(job_id))
        async with office.database.transaction() as tx:
            with pytest.raises(PenstockError) as stop:
                await assert_job_running(tx, job_id)
        assert stop.value.code is error_codes.JOB_CANCELLED

    async def test_a_cancel_waits_for_the_page_that_is_just_being_written(self, office):
        job_id = (await office.job())["job_id"]
        async with office.database.transaction() as tx:
            await assert_job_running(tx, UUID(job_id))
            cancelling = asyncio.create_task(office.cancel(job_id))
            done, _ = await asyncio.wait({cancelling}, timeout=0.3)
            assert not done
        assert (await cancelling).status_code == 200


class TestFiles:
    async def react(self, office, policy):
        [reaction] = reactions(DocumentSettings(cancelled_files=policy))
        for row in await office.rows("select * from outbox_events where event_type = 'job.cancelled'"):
            async with office.database.transaction() as tx:
                await reaction.handle(tx, stored(row))

    async def test_they_go_and_the_job_says_so(self, office):
        job_id, other = (await office.job())["job_id"], (await office.job())["job_id"]
        await office.get(f"/{job_id}/pages/1/image")
        assert len(await office.files()) == 3
        await office.cancel(job_id)
        await self.react(office, "delete")
        assert await remove_files(office.desk) == 1
        assert await office.files() == [f"jobs/{other}/source.pdf"]
        answer = await office.get(f"/{job_id}/pages/1/image")
        assert (answer.status_code, answer.json()["code"]) == (404, "JOB_FILE_GONE")
        assert await remove_files(office.desk) == 0

    async def test_or_stay_where_the_policy_keeps_them(self, office):
        job_id = (await office.job())["job_id"]
        await office.cancel(job_id)
        await self.react(office, "keep")
        assert await remove_files(office.desk) == 0
        assert await office.files() == [f"jobs/{job_id}/source.pdf"]

    async def test_a_picture_that_is_drawn_meanwhile_does_not_stay(self, office):
        job_id = (await office.job())["job_id"]
        await office.cancel(job_id)
        await self.react(office, "delete")
        drawing, emptied = asyncio.Event(), asyncio.Event()

        class Slow(type(office.desk.store)):
            async def put(self, key, body):
                drawing.set()
                await emptied.wait()
                await super().put(key, body)

        class Watched(type(office.desk.store)):
            async def delete(self, key):
                await super().delete(key)
                emptied.set()
                await asked

        desk = office.desk
        slow = replace(desk, store=Slow(desk.store._root))
        asked = asyncio.create_task(page_image(slow, Drawing(UUID(job_id), "m-1", 1, 96, PictureFormat.PNG)))
        await drawing.wait()
        await remove_files(replace(desk, store=Watched(desk.store._root)))
        assert await office.files() == []

    async def test_a_removal_that_fails_is_tried_again(self, office, tmp_path):
        job_id = (await office.job())["job_id"]
        await office.cancel(job_id)
        await self.react(office, "delete")

        class Away(type(office.desk.store)):
            async def delete(self, key):
                raise PenstockError(error_codes.STORE_UNAVAILABLE, key=key)

        away = replace(office.desk, store=Away(office.desk.store._root))
        with pytest.raises(PenstockError):
            await remove_files(away)
        assert await remove_files(office.desk) == 1
        assert await office.files() == []
