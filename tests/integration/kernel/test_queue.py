"""The queue is ARQ's: what we put in ARQ can read, and a look takes each wake-up once."""

from datetime import UTC, datetime, timedelta

import pytest
from arq.jobs import Job, JobStatus

from penstock.kernel.queue import Queue

HOUR = timedelta(hours=1)


@pytest.fixture
def queue(redis_client, keys):
    return Queue(redis_client, keys, "etl")


class TestWakeUps:
    async def test_arq_knows_them_and_their_stages(self, queue):
        job_id = await queue.wake("etl_ocr", 7, once="a")
        job = Job(job_id, queue.arq, _queue_name=queue.name, _deserializer=queue.arq.job_deserializer)
        told = await job.info()
        assert (told.function, list(told.args), await job.status()) == ("etl_ocr", [7], JobStatus.queued)
        await queue.look([], 1, HOUR)
        assert await job.status() == JobStatus.in_progress
        await queue.look([job_id], 0, HOUR)
        assert await job.status() == JobStatus.not_found

    async def test_one_that_waits_or_runs_is_not_put_in_again(self, queue):
        assert await queue.wake("etl_ocr", 7, once="a") is not None
        assert await queue.wake("etl_ocr", 7, once="a") is None
        [(job_id, _)] = await queue.look([], 5, HOUR)
        assert await queue.wake("etl_ocr", 7, once="a") is None
        await queue.look([job_id], 0, HOUR)
        assert await queue.wake("etl_ocr", 7, once="a") == job_id


class TestLooking:
    async def test_each_is_taken_once_the_longest_waiting_first_and_none_before_its_time(self, queue):
        await queue.wake("later", once="later", after=HOUR)
        for number in range(250):
            await queue.wake("job", number, once=str(number))
        begun = queue.waking("job", once="begun long ago", since=datetime(2020, 1, 1, tzinfo=UTC))
        await begun.script(begun.keys, begun.arguments)
        taken = [await queue.look([], 90, HOUR) for _ in range(4)]
        assert [len(each) for each in taken] == [90, 90, 71, 0]
        ids = [job_id for each in taken for job_id, _ in each]
        assert ids[0] == queue.id_of("begun long ago")
        assert len(set(ids)) == 251

    async def test_what_is_handed_back_is_taken_again_and_what_has_expired_is_not(self, queue):
        given = await queue.wake("job", once="given back")
        expired = await queue.wake("job", once="expired")
        assert len(await queue.look([], 5, HOUR)) == 2
        await queue.arq.delete(f"arq:job:{expired}")
        for job_id in (given, expired):
            await queue.hand_back(job_id)
        assert [job_id for job_id, _ in await queue.look([], 5, HOUR)] == [given]
        assert await queue.arq.zrange(queue.name, 0, -1) == [given.encode()]
