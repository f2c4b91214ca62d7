"""Following a job, on any instance, from what is true now to its last event."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import httpx
import pytest
from tests.integration.api.conftest import until_answers
from tests.support.edge import free_port
from tests.support.jobs import finished_upload, pdf

from penstock import documents
from penstock.api.server import serve
from penstock.bootstrap import load_settings, started
from penstock.documents.states import JOB, PAGE
from penstock.documents.states import JobStatus as Job
from penstock.documents.states import PageStatus as Page
from penstock.kernel.db import fetch_all
from penstock.kernel.identity import Caller, Role, issue_token
from penstock.kernel.statemachine import Step, move

SECONDS = 20


@dataclass
class Town:
    """Two instances of the API, and one of everything else, in one process."""

    north: str
    south: str
    parts: object
    client: httpx.AsyncClient

    async def create(self, content: bytes, at: str) -> str:
        upload = await finished_upload(self.parts.database, self.parts.desk.uploads, content)
        answer = await self.client.post(f"{at}/api/v1/jobs", json={"upload_id": upload})
        assert answer.status_code == 201, answer.text
        return answer.json()["job_id"]

    async def move(self, job_id: str, source: Job, target: Job, by: str, **payload) -> None:
        topic = f"job:{job_id}"
        async with self.parts.database.transaction() as tx:
            await move(
                tx, JOB,
                Step(job_id, source, target, by=by, trigger="t", payload=payload, topics=(topic,), order_key=topic),
            )  # fmt: skip

    @asynccontextmanager
    async def following(self, job_id: str, at: str, **headers: str):
        url = f"{at}/api/v1/jobs/{job_id}/events"
        async with asyncio.timeout(SECONDS), self.client.stream("GET", url, headers=headers) as answer:
            assert answer.status_code == 200
            yield _events(answer)


async def _events(answer):
    """Each event as (name, data, id), heartbeats left out."""
    found = {}
    async for line in answer.aiter_lines():
        if not line and "event" in found:
            if found["event"] != "heartbeat":
                yield found["event"], json.loads(found["data"]), found.get("id")
            found = {}
        else:
            name, _, value = line.partition(": ")
            found[name] = value


@pytest.fixture
async def town(environment, tmp_path):
    environment.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    environment.setenv("PENSTOCK_SANDBOX_WORKERS", "1")
    stop = asyncio.Event()
    alice = issue_token("s" * 32, Caller("alice", "m-1", Role.UPLOADER), timedelta(minutes=5))
    async with AsyncExitStack() as stack:
        addresses, serving = [], []
        for _ in range(2):
            settings = load_settings(port=free_port())
            parts = await stack.enter_async_context(started(settings, role="serve"))
            serving.append(asyncio.create_task(serve(parts, stop)))
            addresses.append(f"http://127.0.0.1:{settings.runtime.port}")
            await until_answers(addresses[-1], serving[-1])
        others = await stack.enter_async_context(started(load_settings(), role="scheduler"))
        relaying = asyncio.create_task(others.relay().run(stop))
        client = await stack.enter_async_context(
            httpx.AsyncClient(timeout=SECONDS, headers={"Authorization": f"Bearer {alice}"})
        )
        yield Town(*addresses, others, client)
        stop.set()
        await asyncio.wait_for(asyncio.gather(relaying, *serving), 15)


class TestFollowing:
    async def test_created_on_one_instance_followed_on_the_other_cancelled_on_the_first(self, town):
        job_id = await town.create(pdf("one", "", "three"), town.north)
        async with town.following(job_id, town.south) as events:
            name, snapshot, _ = await anext(events)
            assert name == "snapshot"
            assert (snapshot["status"], snapshot["user_status"], snapshot["progress_percent"]) == (
                "UPLOADED", "processing", 33,
            )  # fmt: skip
            assert snapshot["pages_by_status"] == {"PENDING": 2, "BLANK": 1}
            answer = await town.client.post(f"{town.north}/api/v1/jobs/{job_id}/cancel")
            assert answer.status_code == 200
            rest = [(name, data, place) async for name, data, place in events]
        *before, (name, last, place) = rest
        assert {event for event, _, _ in before} <= {"pages_batch_update"}  # heard or not: it may be in the snapshot
        assert name == "job_failed"
        assert (last["error_code"], last["to"], last["job_id"]) == ("JOB_CANCELLED", "CANCELLED", job_id)
        assert last["sentences"]["message"]["zh"] == "任务已取消"
        again = await town.client.get(f"{town.south}/api/v1/jobs/{job_id}/events", headers={"Last-Event-ID": place})
        assert again.status_code == 204
        await self.files_are_removed(town, job_id)

    async def files_are_removed(self, town, job_id):
        """The whole chain: event, relay, reaction, removal."""
        async with asyncio.timeout(SECONDS):
            while not await documents.remove_files(town.parts.desk):
                await town.parts.deliveries().drain()
                await asyncio.sleep(0.05)
        assert [found.key async for found in town.parts.store.list()] == []

    async def test_a_failure_that_can_be_mended_does_not_end_the_stream(self, town):
        job_id = await town.create(pdf("one"), town.north)
        async with town.following(job_id, town.south) as events:
            assert (await anext(events))[0] == "snapshot"
            await town.move(job_id, Job.UPLOADED, Job.EVALUATING, "gateway")
            await town.move(job_id, Job.EVALUATING, Job.ORPHANED, "gateway", error_code="JOB_ORPHANED")
            name, data, place = await anext(events)
            assert (name, data["to"]) == ("job_failed", "ORPHANED")
            await town.move(job_id, Job.ORPHANED, Job.PROCESSING, "gateway")
            await town.move(job_id, Job.PROCESSING, Job.PARTIAL_IMPORTED, "pipeline")
            await town.move(job_id, Job.PARTIAL_IMPORTED, Job.FULL_IMPORTED, "output", total_skus=3)
            rest = [(name, data["to"]) async for name, data, _ in events]
        assert rest == [("job_completed", "PARTIAL_IMPORTED"), ("job_completed", "FULL_IMPORTED")]
        async with town.following(job_id, town.north, **{"Last-Event-ID": place}) as events:
            missed = [(name, data.get("to")) async for name, data, _ in events]
        assert missed == rest

    async def test_pages_and_the_job_share_one_stream_in_order(self, town):
        job_id = await town.create(pdf("one", "two"), town.north)
        async with town.parts.database.transaction() as tx:
            pages = await fetch_all(tx, "select id, page_number from pages where job_id = %s", (UUID(job_id),))
        topic = f"job:{job_id}"
        walk = list(pairwise([Page.PENDING, Page.AI_QUEUED, Page.AI_PROCESSING, Page.AI_COMPLETED]))
        async with town.following(job_id, town.south) as events:
            await anext(events)
            for page in pages:
                for source, target in walk:
                    async with town.parts.database.transaction() as tx:
                        await move(tx, PAGE, Step(
                            str(page["id"]), source, target, by="pipeline", trigger="t", merchant_id="m-1",
                            payload={"page_no": page["page_number"]}, topics=(topic,), order_key=topic,
                        ))  # fmt: skip
            await town.client.post(f"{town.north}/api/v1/jobs/{job_id}/cancel")
            heard = [(name, data.get("page_no")) async for name, data, _ in events if name != "pages_batch_update"]
        assert heard == [("page_completed", 1), ("page_completed", 2), ("job_failed", None)]

    async def test_a_job_that_has_ended_is_a_snapshot_and_the_end(self, town):
        job_id = await town.create(pdf("one"), town.north)
        await town.client.post(f"{town.north}/api/v1/jobs/{job_id}/cancel")
        async with town.following(job_id, town.south) as events:
            heard = [(name, data.get("status")) async for name, data, _ in events]
        assert heard == [("snapshot", "CANCELLED")]

    async def test_the_dashboard_begins_with_the_merchants_jobs_by_status(self, town):
        await town.create(pdf("one"), town.north)
        await town.create(pdf("", ""), town.south)
        url = f"{town.north}/api/v1/dashboard/events"
        async with asyncio.timeout(SECONDS), town.client.stream("GET", url) as answer:
            name, snapshot, _ = await anext(_events(answer))
        assert (name, snapshot) == ("snapshot", {"jobs": {"UPLOADED": 1, "DEGRADED_HUMAN": 1}})

    async def test_a_stranger_gets_no_stream(self, town):
        job_id = await town.create(pdf("one"), town.north)
        bob = issue_token("s" * 32, Caller("bob", "m-2", Role.UPLOADER), timedelta(minutes=5))
        answer = await town.client.get(
            f"{town.north}/api/v1/jobs/{job_id}/events", headers={"Authorization": f"Bearer {bob}"}
        )
        assert (answer.status_code, answer.json()["code"]) == (404, "JOB_NOT_FOUND")


class TestAcrossInstances:
    async def test_ten_requests_over_two_instances_make_one_job(self, town):
        upload = await finished_upload(town.parts.database, town.parts.desk.uploads, pdf("one"))
        places = [town.north, town.south] * 5
        answers = await asyncio.gather(
            *(town.client.post(f"{place}/api/v1/jobs", json={"upload_id": upload}) for place in places)
        )
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["job_id"] for answer in answers}) == 1
