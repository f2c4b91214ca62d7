"""An operator requeues an orphaned job."""

from uuid import uuid4

import pytest
from tests.support.edge import bearer
from tests.support.page_jobs import add_job, add_worker, rows


@pytest.fixture
async def orphan(database):
    await add_worker(database, "b")
    return await add_job(database, status="ORPHANED", worker="a")


def path(job_id) -> str:
    return f"/api/v1/jobs/{job_id}/requeue"


async def exhaust(database, job_id):
    async with database.transaction() as tx:
        await tx.execute(
            "insert into job_requeues (job_id, method, resumed_from, requested_by)"
            " select %s, 'auto', 0, 'gateway' from generate_series(1, 3)",
            (job_id,),
        )


class TestRequeuing:
    async def test_it_goes_on_at_a_living_worker_and_that_is_written_down(self, client, database, orphan):
        answer = await client.post(path(orphan), headers=bearer("operator"))
        assert answer.status_code == 200
        assert answer.json() == {
            "job_id": str(orphan), "status": "PROCESSING", "worker_id": "b", "resume_from": 0, "requeues_today": 1,
        }  # fmt: skip
        [entry] = await rows(database, "select * from audit_log")
        assert (entry["actor"], entry["action"], entry["subject"], entry["merchant_id"]) == (
            "alice", "requeue_job", f"job:{orphan}", "m-1",
        )  # fmt: skip
        assert entry["details"]["forced"] is False

    async def test_a_second_order_finds_no_orphan(self, client, orphan):
        await client.post(path(orphan), headers=bearer("operator"))
        answer = await client.post(path(orphan), headers=bearer("admin"), json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "JOB_NOT_ORPHANED")
        assert answer.json()["details"]["status"] == "PROCESSING"

    async def test_beyond_three_a_day_it_must_be_forced(self, client, database, orphan):
        await exhaust(database, orphan)
        answer = await client.post(path(orphan), headers=bearer("operator"), json={"force": False})
        assert (answer.status_code, answer.json()["code"]) == (429, "REQUEUE_LIMIT")
        assert await rows(database, "select 1 from audit_log") == []
        answer = await client.post(path(orphan), headers=bearer("operator"), json={"force": True})
        assert (answer.status_code, answer.json()["requeues_today"]) == (200, 4)
        [entry] = await rows(database, "select details from audit_log")
        assert (entry["details"]["forced"], entry["details"]["requeues_today"]) == (True, 4)

    async def test_the_worker_named_gets_it_if_it_is_alive(self, client, database, orphan):
        await add_worker(database, "c")
        await add_worker(database, "d", "DEAD")
        answer = await client.post(path(orphan), headers=bearer("operator"), json={"target_worker": "d"})
        assert (answer.status_code, answer.json()["code"]) == (409, "WORKER_NOT_ALIVE")
        answer = await client.post(path(orphan), headers=bearer("operator"), json={"target_worker": "c"})
        assert answer.json()["worker_id"] == "c"

    async def test_without_a_living_worker_the_answer_says_so(self, client, database, orphan):
        await add_worker(database, "b", "DEAD")
        answer = await client.post(path(orphan), headers=bearer("operator"))
        assert (answer.status_code, answer.json()["code"]) == (503, "NO_LIVING_WORKER")


class TestRefusing:
    async def test_a_job_that_is_not_there(self, client, database):
        answer = await client.post(path(uuid4()), headers=bearer("operator"))
        assert (answer.status_code, answer.json()["code"]) == (404, "JOB_NOT_FOUND")

    @pytest.mark.parametrize("role", ["uploader", "annotator"])
    async def test_others_may_not(self, client, database, orphan, role):
        answer = await client.post(path(orphan), headers=bearer(role))
        assert (answer.status_code, answer.json()["code"]) == (403, "ROLE_DENIED")

    @pytest.mark.parametrize("body", [{"forced": True}, {"force": "maybe"}, {"target_worker": ""}, [1]])
    async def test_an_order_that_makes_no_sense(self, client, database, orphan, body):
        answer = await client.post(path(orphan), headers=bearer("operator"), json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")

    async def test_a_worker_name_that_postgresql_cannot_hold(self, client, database, orphan):
        answer = await client.post(path(orphan), headers=bearer("operator"), json={"target_worker": "a\x00b"})
        assert (answer.status_code, answer.json()["code"]) == (409, "WORKER_NOT_ALIVE")

    async def test_a_body_of_another_type(self, client, database, orphan):
        headers = {**bearer("operator"), "Content-Type": "text/plain"}
        answer = await client.post(path(orphan), headers=headers, content="force")
        assert (answer.status_code, answer.json()["code"]) == (415, "CONTENT_TYPE_INVALID")
