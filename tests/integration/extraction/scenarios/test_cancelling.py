"""Taking a task back: only before anybody has begun with it."""

from tests.support.etl import until
from tests.support.etl_world import TASKS
from tests.support.pdfs import text_pages

from penstock.kernel.queue import Queue

PAGE = text_pages(1, lines=3)


class TestCancelling:
    async def test_a_task_that_waits_is_cancelled_for_good(self, queuer):
        """成功取消排队中的任务"""
        task_id = await queuer.submit(PAGE)
        answer = await queuer.cancel(task_id)
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        row = await queuer.row(task_id)
        assert (row["status"], row["started_at"]) == ("cancelled", None)
        assert row["finished_at"] is not None
        assert (await queuer.state(task_id))["status"] == "cancelled"
        assert (await queuer.task(task_id))["status"] == "cancelled"

    async def test_a_worker_that_takes_its_job_does_nothing(self, world, alice, queuer):
        """成功取消排队中的任务：worker 执行前检查状态"""
        task_id = await queuer.submit(PAGE)
        await queuer.cancel(task_id)
        before, queue = await queuer.row(task_id), alice.parts.etl.queue
        for job in ("etl_ocr", "etl_postprocess"):
            assert await queue.wake(job, task_id, once=f"late:{job}:{task_id}")
        await _drained(queue)
        assert await queuer.row(task_id) == before
        assert await queuer.stored(task_id) == {}
        assert (await queuer.state(task_id))["status"] == "cancelled"

    async def test_one_that_is_being_worked_on_is_not(self, world, mina):
        """取消运行中的任务被拒绝"""
        world.mineru.behave(states=["running"])
        task_id = await mina.submit(PAGE)
        await mina.in_state(task_id, "mineru_parsing")
        answer = await mina.cancel(task_id)
        assert (answer.status_code, answer.json()["code"]) == (409, "ETL_ALREADY_STARTED")
        world.mineru.behave(states=["done"])
        assert (await mina.ended(task_id))["status"] == "completed"

    async def test_one_that_has_ended_is_not(self, queuer):
        """取消已结束的任务被拒绝"""
        task_id = await queuer.submit(PAGE)
        await queuer.cancel(task_id)
        assert (await queuer.cancel(task_id)).status_code == 409

    async def test_a_cancelled_task_can_be_tried_again(self, alice, queuer):
        """取消后的任务可再次提交执行"""
        task_id = await queuer.submit(PAGE)
        await queuer.cancel(task_id)
        there = await queuer.world.somebody(queuer.merchant)  # at the desk whose queue has a worker
        assert (await there.retry(task_id, "ocr")).json()["status"] == "pending"
        assert (await there.ended(task_id))["status"] == "completed"

    async def test_another_merchants_task_is_not_known(self, alice, queuer):
        """取消他人的任务：任务不存在"""
        task_id = await queuer.submit(PAGE)
        for verb, body in (("cancel", None), ("retry", {"from_stage": "ocr"})):
            answer = await alice.http.post(f"{TASKS}/{task_id}/{verb}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (404, "ETL_TASK_NOT_FOUND")
        assert (await queuer.row(task_id))["status"] == "pending"


async def _drained(queue: Queue) -> None:
    async def is_empty() -> bool:
        waiting = await queue.arq.zcard(queue.name)
        return not waiting and not await queue.arq.keys("arq:in-progress:*late:*")

    await until(is_empty, 30, "the worker has taken what was queued")
