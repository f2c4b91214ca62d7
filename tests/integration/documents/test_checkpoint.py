"""How far a job has come: the truth in PostgreSQL, a copy in Redis that may vanish or lie without harm."""

from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.page_jobs import add_job, add_worker, job_row

from penstock.documents import pagework, store_pages
from penstock.documents.checkpoint import Checkpoints
from penstock.documents.states import PageStatus
from penstock.embedded import EmbeddedRedis
from penstock.kernel.errors import PenstockError
from penstock.kernel.redis import connect


@pytest.fixture
def checkpoints(database, redis_client, keys) -> Checkpoints:
    return Checkpoints(database, redis_client, keys)


@pytest.fixture
async def hold(database):
    await add_worker(database, "w1")
    job_id = await add_job(database, 4)
    async with database.transaction() as tx:
        return await pagework.take(tx, job_id, "w1")


async def do_pages(database, hold, number):
    async with database.transaction() as tx:
        for page in await pagework.claim_pages(tx, hold, ttl=timedelta(seconds=30), limit=number):
            await pagework.complete(tx, page, pagework.Done(1))


class TestMeasuring:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(states=st.lists(st.sampled_from(list(PageStatus)), max_size=12))
    def test_it_is_the_longest_run_of_pages_that_need_nothing_from_the_machine(self, database, loop, states):
        unfinished = {"PENDING", "AI_QUEUED", "AI_PROCESSING", "AI_FAILED"}
        expected = next((n for n, state in enumerate(states) if state in unfinished), len(states))
        assert loop.run_until_complete(self._measured(database, states)) == expected

    async def _measured(self, database, states) -> int:
        job_id = await add_job(database, len(states))
        async with database.transaction() as tx:
            for number, state in enumerate(states, 1):
                await tx.execute(
                    "update pages set status = %s where job_id = %s and page_number = %s", (state, job_id, number)
                )
            return (await store_pages.measure(tx, job_id))["page"]

    async def test_records_of_pages_beyond_it_and_superseded_ones_do_not_count(self, database, hold, checkpoints):
        await do_pages(database, hold, 2)
        async with database.transaction() as tx:
            for page, superseded in ((1, False), (1, True), (2, False), (3, False)):
                await tx.execute(
                    "insert into skus (sku_id, job_id, page_number, validity, superseded, attributes)"
                    " values (%s, %s, %s, 'valid', %s, '{}')",
                    (uuid4().hex, hold.job_id, page, superseded),
                )
        saved = await checkpoints.save(hold)
        assert (saved.page, saved.skus) == (2, 2)


class TestSaving:
    async def test_it_is_in_the_job_and_for_a_week_in_redis(self, database, hold, checkpoints, redis_client, keys):
        await do_pages(database, hold, 3)
        saved = await checkpoints.save(hold)
        job = await job_row(database, hold.job_id)
        assert (job["checkpoint_page"], job["checkpoint_at"]) == (3, saved.at)
        assert 0 < await redis_client.ttl(keys.checkpoint(str(hold.job_id))) <= 7 * 86400
        assert await checkpoints.latest(hold.job_id) == saved

    async def test_who_lost_the_job_cannot_move_it(self, database, hold, checkpoints):
        async with database.transaction() as tx:
            await pagework.take_up(tx, hold.job_id, "w1")
        await do_pages(database, await self._again(database, hold), 2)
        with pytest.raises(PenstockError, match="LEASE_LOST"):
            await checkpoints.save(hold)
        assert (await job_row(database, hold.job_id))["checkpoint_page"] == 0

    async def _again(self, database, hold):
        async with database.transaction() as tx:
            return await pagework.take_up(tx, hold.job_id, "w1")

    async def test_without_redis_it_is_saved_and_read_all_the_same(self, database, hold, keys, home):
        gone = connect(EmbeddedRedis(home / "nowhere").url)
        checkpoints = Checkpoints(database, gone, keys)
        await do_pages(database, hold, 1)
        assert await checkpoints.save(hold) == await checkpoints.latest(hold.job_id)
        await gone.aclose()


class TestReading:
    async def test_a_lost_copy_is_made_again(self, database, hold, checkpoints, redis_client, keys):
        saved = await checkpoints.save(hold)
        await redis_client.flushall()
        assert await checkpoints.latest(hold.job_id) == saved
        assert await redis_client.exists(keys.checkpoint(str(hold.job_id)))

    async def test_a_slow_reader_does_not_put_an_old_one_over_a_new_one(self, database, hold, checkpoints):
        old = await checkpoints.save(hold)
        await do_pages(database, hold, 2)
        new = await checkpoints.save(hold)
        await checkpoints._copy(hold.job_id, old, only_if_missing=True)
        assert await checkpoints.latest(hold.job_id) == new

    @pytest.mark.parametrize("rubbish", ["", "{}", "[1]", '{"page": "x", "skus": 1, "at": null}'])
    async def test_a_copy_that_makes_no_sense_is_passed_over(self, hold, checkpoints, redis_client, keys, rubbish):
        saved = await checkpoints.save(hold)
        await redis_client.set(keys.checkpoint(str(hold.job_id)), rubbish)
        assert await checkpoints.latest(hold.job_id) == saved

    async def test_a_copy_that_lies_does_not_decide_where_a_job_goes_on(
        self, database, hold, checkpoints, redis_client, keys
    ):
        await redis_client.set(keys.checkpoint(str(hold.job_id)), '{"page": 4, "skus": 9, "at": null}')
        assert (await checkpoints.latest(hold.job_id)).page == 4
        async with database.transaction() as tx:
            again = await pagework.take_up(tx, hold.job_id, "w1")
            pages = await pagework.claim_pages(tx, again, ttl=timedelta(seconds=30), limit=9)
        assert [page.number for page in pages] == [1, 2, 3, 4]

    async def test_a_job_that_does_not_exist_has_none(self, database, checkpoints):
        with pytest.raises(PenstockError, match="JOB_NOT_FOUND"):
            await checkpoints.latest(uuid4())
