"""Looking at tasks: Redis first, PostgreSQL behind it; one by one and listed."""

import asyncio

from tests.standins.openai_like import says
from tests.support.etl_world import TASKS, waits_for
from tests.support.pdfs import text_pages

from penstock.kernel.identity import Role

SCHEMA = {"type": "object", "properties": {"animal": {"type": "string"}}, "required": ["animal"]}
PAGE = text_pages(1, lines=3)


class TestOneTask:
    async def test_redis_is_asked_first_and_postgresql_behind_it(self, queuer):
        """查询单个任务状态（Redis 优先）"""
        task_id = await queuer.submit(PAGE)
        key, redis = queuer.state_key(task_id), queuer.parts.redis
        await redis.hset(key, mapping={"progress": 37, "status": "mineru_parsing"})
        told = await queuer.task(task_id)
        assert (told["status"], told["progress"]) == ("mineru_parsing", 37)  # only Redis knows that
        await redis.delete(key)
        told = await queuer.task(task_id)
        assert (told["status"], told["progress"], told["phase"]) == ("pending", 0, "ocr")
        assert (await queuer.state(task_id))["status"] == "pending"  # written anew

    async def test_an_end_is_told_with_and_without_redis(self, world, mina):
        """查询单个任务状态（Redis 优先）：Redis 未命中时回退数据库"""
        world.model.script = [says({"animal": "fox"})]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        before = await mina.ended(task_id)
        await mina.parts.redis.delete(mina.state_key(task_id))
        after = await mina.task(task_id)
        assert after == before
        assert (after["status"], after["progress"], after["error"]) == ("completed", 100, None)
        assert after["result"]["data"] == {"animal": "fox"}
        assert after["metadata"]["artifacts"]["markdown_s3_key"]

    async def test_a_running_task_goes_on_when_redis_forgets_it(self, world, mina):
        """查询单个任务状态（Redis 优先）：运行中丢失运行态"""
        leave = asyncio.Event()
        world.model.script = [waits_for(leave, {"animal": "fox"})]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        await mina.shown(task_id, lambda _: world.model.asked, "asks the model")
        await mina.parts.redis.delete(mina.state_key(task_id))
        assert (await mina.task(task_id))["status"] == "llm_processing"
        leave.set()
        assert (await mina.ended(task_id))["status"] == "completed"

    async def test_one_that_runs_says_since_when_and_by_which_version_of_its_rule(self, world, mina):
        """查询单个任务状态（Redis 优先）：运行中的详细信息"""
        leave = asyncio.Event()
        world.model.script = [waits_for(leave, {"animal": "fox"})]
        rule_id = await mina.rule(json_schema=SCHEMA)
        task_id = await mina.submit(PAGE, rule_id=rule_id)
        waiting = await mina.task(task_id)
        running = await mina.in_state(task_id, "llm_processing")
        assert running["created_at"] == waiting["created_at"] < running["started_at"] < running["updated_at"]
        assert (running["rule_id"], running["rule_version"]) == (rule_id, 1)
        refusals = [await mina.cancel(task_id), await mina.http.get(f"{TASKS}/{task_id}/result")]
        assert [each.json()["details"]["status"] for each in refusals] == ["llm_processing"] * 2
        leave.set()
        ended = await mina.ended(task_id)
        assert (ended["started_at"], ended["rule_version"]) == (running["started_at"], 1)
        assert ended["updated_at"] >= ended["finished_at"]

    async def test_one_that_is_not_there_is_not_found(self, queuer):
        """任务不存在"""
        for path in ("", "/markdown", "/result", "/pages/1", "/images/a.png"):
            answer = await queuer.http.get(f"{TASKS}/999999{path}", headers={"Accept-Language": "en"})
            told = answer.json()
            assert (answer.status_code, told["code"], told["message"]) == (404, "ETL_TASK_NOT_FOUND", "Task not found")

    async def test_another_merchants_is_not_found_whether_it_runs_or_not(self, alice, queuer, mina):
        """任务不存在：其他商户的任务"""
        running, ended = await queuer.submit(PAGE), await mina.submit(PAGE)
        await mina.ended(ended)
        for task_id in (running, ended):
            for path in ("", "/markdown", "/result", "/pages/1"):
                assert (await alice.http.get(f"{TASKS}/{task_id}{path}")).status_code == 404
        assert (await alice.http.get(TASKS)).json()["tasks"] == []


class TestTheList:
    async def test_it_is_newest_first_with_run_states_laid_over(self, world, mina):
        """列出用户任务（Redis 覆盖）"""
        ended = await mina.submit(PAGE)
        await mina.ended(ended)
        world.mineru.behave(states=["running"])
        running = await mina.submit(PAGE)
        await mina.shown(running, lambda told: told["pages"], "is being read")
        elsewhere = await world.somebody(mina.merchant, ETL_ARQ_QUEUE_NAME="nobody")
        waiting = await elsewhere.submit(PAGE)
        listed = (await mina.http.get(TASKS)).json()["tasks"]
        assert [(each["task_id"], each["status"]) for each in listed] == [
            (waiting, "pending"),
            (running, "mineru_parsing"),
            (ended, "completed"),
        ]
        assert (await mina.row(running))["status"] == "pending"
        assert listed[1]["pages"]["total"] == 1
        assert listed[2]["result"]["markdown_s3_key"]
        await mina.parts.redis.delete(mina.state_key(running), mina.state_key(ended))
        without = (await mina.http.get(TASKS)).json()["tasks"]
        assert [each["status"] for each in without] == ["pending", "mineru_parsing", "completed"]
        world.mineru.behave(states=["done"])
        await mina.ended(running)

    async def test_it_comes_in_pages_and_by_status(self, world, queuer):
        """列出用户任务（Redis 覆盖）：分页"""
        tasks = [await queuer.submit(PAGE) for _ in range(5)]
        await queuer.cancel(tasks[1])
        found, before = [], None
        for _ in range(4):
            asked = {"limit": 2} | ({"before": before} if before else {})
            part = (await queuer.http.get(TASKS, params=asked)).json()
            found.append([each["task_id"] for each in part["tasks"]])
            if (before := part["next_before"]) is None:
                break
        assert found == [[tasks[4], tasks[3]], [tasks[2], tasks[1]], [tasks[0]]]
        cancelled = (await queuer.http.get(TASKS, params={"status": "cancelled"})).json()["tasks"]
        assert [each["task_id"] for each in cancelled] == [tasks[1]]
        operator = await world.somebody(user=Role.OPERATOR, ETL_ARQ_QUEUE_NAME="nobody")
        seen = (await operator.http.get(TASKS, params={"limit": 5})).json()["tasks"]
        assert [each["task_id"] for each in seen] == tasks[::-1]
