"""A task that an executor lost and claimed again: two runs of it for a moment, and only the new one counts."""

import asyncio
from datetime import timedelta

from structlog.testing import capture_logs
from tests.standins import Library
from tests.support.harvesting import CALM, written

from penstock.harvest.executing import settle


async def until(condition, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


async def test_the_end_of_the_old_run_does_not_make_the_executor_forget_the_new_one(beside):
    made = Library(20, days=0.5, seed=3, habits=CALM)
    made.now = made.end + timedelta(days=1)
    async with beside("generic", made, document=written("offset")) as here:
        answer, delays, stop = here.api.answer, [0.7, 2.0], asyncio.Event()

        def slowly(request):
            response = answer(request)
            response.delay = delays.pop(0) if delays else 0
            return response

        async def runs(count: int) -> bool:
            rows = await here.rows("select 1 from ing_task_run where status_code <> 'PLANNED'")
            return len(rows) == count and len(delays) == 2 - count

        async def is_lost() -> bool:
            return any(entry["event"] == "task.lost" for entry in said)

        here.api.answer = slowly
        await here.plan(since=made.start, until=made.start + timedelta(hours=12))
        with capture_logs() as said:
            running = asyncio.create_task(here.desk.executor("one").run(stop))
            await until(lambda: runs(1))
            await here.rows("update ing_task set leased_until = now() - interval '1 second' returning 1")
            assert await settle.take_from_the_silent(here.database, most_attempts=9) == 1
            await until(lambda: runs(2))
            await until(is_lost)
            stop.set()
            await running
        assert await here.tasks() == {"SUCCEEDED": 1}
