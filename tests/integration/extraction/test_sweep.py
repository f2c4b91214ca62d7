"""What was lost is found again, with a real worker, Redis and PostgreSQL."""

import pytest
from arq.constants import in_progress_key_prefix
from tests.support.etl import ALICE, EtlPlace, etl_place
from tests.support.pdfs import text_pages

from penstock.extraction.sweep import sweep


@pytest.fixture(autouse=True)
def own_keys(environment, tmp_path):
    """Tasks are numbered from 1 in every test."""
    environment.setenv("PENSTOCK_REDIS_PREFIX", tmp_path.name)


async def jobs(place: EtlPlace) -> list[str]:
    return [name.decode() for name in await place.parts.etl.queue.arq.zrange(place.parts.etl.queue.name, 0, -1)]


class TestAWorkerKilledBeforeItsClaim:
    async def test_the_wake_up_that_it_took_does_not_hold_the_task(self, environment):
        environment.setenv("ETL_LEASE_SECONDS", "1")
        async with etl_place(works=False) as place:
            task_id = await place.submit(text_pages(1))
            (taken,) = await jobs(place)
            # what a worker leaves in Redis that is killed right after it took the job
            await place.parts.redis.set(in_progress_key_prefix + taken, b"1", ex=3600)
        async with etl_place() as place:
            assert (await place.ended(task_id))["status"] == "completed"

    async def test_while_all_is_well_a_task_has_one_wake_up(self, environment):
        async with etl_place(works=False) as place:
            await place.submit(text_pages(1))
            for _ in range(3):
                await sweep(place.parts.etl)
            assert len(await jobs(place)) == 1


class TestAnEndThatRedisMissed:
    async def test_it_is_told_again(self, environment):
        async with etl_place(works=False) as place:
            task_id = await place.submit(text_pages(1))
            async with place.parts.database.transaction() as tx:
                end = "update etl_task set status = 'completed', result = '{}', finished_at = now() where task_id = %s"
                await tx.execute(end, (task_id,))
            await sweep(place.parts.etl)
            state = await place.parts.etl.states.read(task_id)
            assert state is not None
            assert (state.is_over, state.facts["merchant_id"]) == (True, ALICE.merchant_id)
