"""A task on its way: what Redis says meanwhile, what PostgreSQL keeps, and who does what in which order."""

import asyncio
import json

import pytest
from tests.standins.openai_like import says
from tests.support.etl_world import AUDIT, waits_for
from tests.support.pdfs import text_pages

from penstock.extraction import runstate

SCHEMA = {"type": "object", "properties": {"animal": {"type": "string"}}, "required": ["animal"]}
PAGE = text_pages(1, lines=3)


class TestRunStateInRedis:
    async def test_a_running_task_is_in_redis_for_a_limited_time(self, world, queuer):
        """运行态写入与 TTL"""
        task_id = await queuer.submit(PAGE)
        state = await queuer.state(task_id)
        assert (state["status"], state["phase"], state["progress"]) == ("pending", "ocr", "0")
        assert queuer.state_key(task_id).endswith(f":etl:task:{{{task_id}}}")
        assert 86_000_000 < await queuer.parts.redis.pttl(queuer.state_key(task_id)) <= 86_400_000

        hasty = await world.somebody(ETL_ARQ_QUEUE_NAME="nobody", ETL_STATE_TTL_SECONDS="77", ETL_REDIS_PREFIX="other:")
        task_id = await hasty.submit(PAGE)
        assert hasty.state_key(task_id).endswith(f":other:task:{{{task_id}}}")
        assert 0 < await hasty.parts.redis.pttl(hasty.state_key(task_id)) <= 77_000

    async def test_it_may_be_in_a_redis_of_its_own(self, world, redis_server):
        """运行态写入与 TTL：ETL_REDIS_URL"""
        apart = await world.somebody(ETL_REDIS_URL=f"{redis_server.url}?db=3")
        task_id = await apart.submit(PAGE)
        assert await apart.state(task_id) == {}
        assert (await apart.parts.etl.states.read(task_id)).status == "pending"
        assert (await apart.task(task_id))["job_id"]

    async def test_what_is_written_again_or_late_moves_nothing_back(self, world, mina):
        """运行态写入与 TTL：重复写入不会导致状态倒退"""
        world.mineru.behave(states=["running"])
        task_id = await mina.submit(PAGE)
        await mina.shown(task_id, lambda told: told["pages"], "is being read")
        begun, states = await mina.state(task_id), mina.parts.etl.states
        row = await mina.row(task_id)
        assert await states.write(runstate.of_row(row | {"started_at": None, "lease_token": 0})) is False
        assert await states.write(runstate.of_row(row | {"started_at": None})) is False
        assert await states.write(runstate.of_row(row | {"progress": 0})) is True
        now = await mina.state(task_id)
        assert (
            (now["status"], now["progress"])
            == (begun["status"], begun["progress"])
            == ("mineru_parsing", now["progress"])
        )
        world.mineru.behave(states=["done"])
        await mina.ended(task_id)
        assert await states.write(runstate.of_row(row)) is False
        assert (await mina.state(task_id))["status"] == "completed"

    async def test_pages_and_pauses_of_the_stage_before_are_not_told_on(self, queuer):
        """阶段切换时应更新 Redis 中的阶段与进度"""
        task_id, states = await queuer.submit(PAGE), queuer.parts.etl.states
        await states.note(task_id, pages={"done": 3, "total": 3}, next_attempt_at="2026-03-02T09:00:04Z")
        before = await queuer.task(task_id)
        assert before["pages"] == {"done": 3, "total": 3}
        row = await queuer.row(task_id)
        advanced = row | {"phase": "postprocess", "started_at": row["created_at"], "lease_token": 1, "progress": 80}
        assert await states.write(runstate.of_row(advanced)) is True
        after = await queuer.task(task_id)
        assert (after["status"], after["pages"], after["next_attempt_at"]) == ("llm_processing", None, None)

    async def test_an_end_is_in_postgresql_and_for_a_shorter_time_in_redis(self, alice):
        """运行态与终态并存"""
        task_id = await alice.submit(PAGE)
        await alice.ended(task_id)
        assert (await alice.row(task_id))["status"] == "completed"
        assert (await alice.state(task_id))["status"] == "completed"
        assert 0 < await alice.parts.redis.pttl(alice.state_key(task_id)) <= 3_600_000


class TestTwoChainedJobs:
    async def test_reading_is_one_job_and_making_json_another(self, world, mina):
        """OCR 与后处理拆分"""
        leave = asyncio.Event()
        world.model.script = [waits_for(leave, {"animal": "fox"})]
        world.mineru.behave(states=["pending", "running"])
        task_id = await mina.submit(text_pages(2, lines=3), rule_id=await mina.rule(json_schema=SCHEMA))
        reading = await mina.shown(task_id, lambda told: told["status"] == "mineru_parsing", "is being read")
        assert (reading["phase"], ":ocr:" in reading["job_id"]) == ("ocr", True)
        assert world.model.asked == []
        world.mineru.behave(states=["done"])
        making = await mina.shown(task_id, lambda _: world.model.asked, "is being made JSON of")
        assert (reading["status"], making["status"]) == ("mineru_parsing", "llm_processing")
        assert (making["phase"], ":postprocess:" in making["job_id"]) == ("postprocess", True)
        assert reading["progress"] < 80 <= making["progress"] < 100
        leave.set()
        assert (await mina.ended(task_id))["progress"] == 100

    async def test_the_worker_tells_each_stage_and_stores_pointers_between(self, world, mina):
        """Worker 消费任务（链式执行）"""
        leave = asyncio.Event()
        world.model.script = [waits_for(leave, {"animal": "fox"})]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        await mina.in_state(task_id, "llm_processing")
        artifacts = json.loads((await mina.state(task_id))["artifacts"])
        leave.set()
        assert artifacts["markdown_s3_key"].startswith(f"etl/{task_id}/1/document")
        assert "Chapter 1" in (await mina.parts.store.get(artifacts["markdown_s3_key"])).decode()
        assert artifacts["provider_task_id"]
        assert (await mina.ended(task_id))["metadata"]["artifacts"] == artifacts

    async def test_a_document_goes_all_the_way_to_json(self, world, mina):
        """完整 ETL 流程（OCR → 后处理）"""
        world.model.script = [says({"animal": "Chapter 1"})]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        task = await mina.ended(task_id)
        assert (task["status"], task["error"]) == ("completed", None)
        assert (world.mineru.calls["submit"], world.mineru.calls["upload"], len(world.model.asked)) == (1, 1, 1)
        assert "Page 1 begins here" in world.model.asked[0].texts[-1]
        result = json.loads(await mina.parts.store.get(task["result"]["output_s3_key"]))
        assert result["data"] == task["result"]["data"] == {"animal": "Chapter 1"}
        assert result["provenance"]["/animal"][0]["page"] == 1
        assert (await mina.http.get(f"/api/v1/etl/tasks/{task_id}/result")).json() == result
        row = await mina.row(task_id)
        assert (row["status"], row["result"]["data"]) == ("completed", {"animal": "Chapter 1"})


class TestWhatPostgresqlKeeps:
    async def test_a_task_is_a_row_before_anything_else(self, queuer):
        """任务创建时持久化"""
        task_id = await queuer.submit(PAGE)
        row = await queuer.row(task_id)
        assert (row["status"], row["merchant_id"], row["started_at"]) == ("pending", queuer.merchant, None)
        assert (await queuer.state(task_id))["status"] == "pending"

    @pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
    async def test_each_end_is_written_with_what_one_needs_to_judge_it(self, world, mina, queuer, end):
        """任务完成/失败/取消时更新数据库；任务状态持久化"""
        somebody = queuer if end == "cancelled" else mina
        world.model.script = [says({"animal": "fox"} if end == "completed" else {"plant": 1})]
        task_id = await somebody.submit(PAGE, rule_id=await somebody.rule(json_schema=SCHEMA))
        before = (await somebody.row(task_id))["updated_at"]
        if end == "cancelled":
            await somebody.cancel(task_id)
        await somebody.in_state(task_id, end)
        row = await somebody.row(task_id)
        assert row["status"] == end
        assert row["updated_at"] == row["finished_at"] > before
        assert (row["result"] is not None) == (end == "completed")
        assert (row["error"] is not None) == (end == "failed")
        assert ("markdown_s3_key" in row["metadata"].get("artifacts", {})) == (end != "cancelled")
        assert (row["progress"] == 100) == (end == "completed")

    async def test_progress_writes_nothing_to_the_database(self, world, mina):
        """中间状态仅更新 Redis"""
        leave, seen = asyncio.Event(), set()
        world.model.script = [waits_for(leave, {"animal": "fox"})]
        world.mineru.behave(states=["running"])
        await mina.rows(AUDIT)
        task_id = await mina.submit(text_pages(2, lines=3), rule_id=await mina.rule(json_schema=SCHEMA))
        looks = world.mineru.calls["look"]
        for told in range(looks + 20):
            await mina.shown(task_id, lambda _, told=told: world.mineru.calls["look"] > told, "is looked at")
            seen.add(((await mina.state(task_id))["status"], (await mina.row(task_id))["status"]))
        world.mineru.behave(states=["done"])
        await mina.in_state(task_id, "llm_processing")
        await mina.shown(task_id, lambda told: told["pages"], "asks the model")
        seen.add(((await mina.state(task_id))["status"], (await mina.row(task_id))["status"]))
        leave.set()
        await mina.ended(task_id)
        assert {("mineru_parsing", "pending"), ("llm_processing", "pending")} <= seen
        writes = await mina.rows("select status, phase from public.etl_writes where task_id = %s order by seq", task_id)
        told = [(each["status"], each["phase"]) for each in writes]
        inserted, claimed, settled, ended = (
            ("pending", "ocr"),
            ("pending", "ocr"),
            ("pending", "postprocess"),
            "completed",
        )
        assert told == [inserted, claimed, settled, settled, (ended, "postprocess")]


class TestFairShares:
    async def test_a_merchant_whose_documents_take_long_leaves_a_place_to_others(self, world, mina, alice):
        world.mineru.behave(states=["running"])
        long = [await mina.submit(PAGE) for _ in range(6)]
        await mina.shown(long[1], lambda told: told["pages"], "is being read")
        assert (await alice.ended(await alice.submit(PAGE)))["status"] == "completed"
        held = [task_id for task_id in long if (await mina.row(task_id))["leased_until"] is not None]
        assert held == long[:2], "two of three places, the first ones first"
        world.mineru.behave(states=["done"])
        for task_id in long:
            assert (await mina.ended(task_id))["status"] == "completed"
