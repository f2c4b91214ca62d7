"""What is tried again by itself, by whom it is tried again afterwards, and what is never done twice."""

import asyncio
import json
from datetime import datetime, timedelta

import pytest
from tests.standins.openai_like import refused, says
from tests.support.etl_world import NOBODY, TASKS, waits_for
from tests.support.pdfs import text_pages

from penstock.extraction.stages import run_stage
from penstock.extraction.states import Stage

SCHEMA = {"type": "object", "properties": {"animal": {"type": "string"}}, "required": ["animal"]}
PAGE = text_pages(1, lines=3)
FOX = says({"animal": "fox"})
PATIENT = {"ETL_RETRY_BACKOFF_BASE_SECONDS": "600", "ETL_RETRY_BACKOFF_MAX_SECONDS": "600"}
NONSENSE = says({"plant": 1})


class TestFromPostprocess:
    async def test_mineru_is_not_asked_again(self, world, mina):
        """从后处理阶段重试（不重复跑 OCR）"""
        world.model.script = [NONSENSE]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        assert (await mina.ended(task_id))["status"] == "failed"
        asked, calls = len(world.model.asked), dict(world.mineru.calls)
        assert calls["submit"] == 1
        world.model.script = [FOX]
        answer = await mina.retry(task_id, "postprocess")
        assert (answer.status_code, answer.json()["status"], answer.json()["phase"]) == (200, "pending", "postprocess")
        task = await mina.ended(task_id)
        assert (task["status"], task["result"]["data"]) == ("completed", {"animal": "fox"})
        assert dict(world.mineru.calls) == calls
        assert len(world.model.asked) == asked + 1

    async def test_the_local_provider_writes_no_page_again(self, alice):
        """从后处理阶段重试（不重复跑 OCR）：本地 provider"""
        task_id = await alice.submit(text_pages(2, lines=3))
        before = (await alice.ended(task_id))["result"]
        written = await alice.stored(task_id)
        assert any("/pages/" in key for key in written)
        assert (await alice.retry(task_id, "postprocess")).status_code == 200
        after = (await alice.ended(task_id))["result"]
        now = await alice.stored(task_id)
        assert {key: now[key] for key in written} == written
        assert set(now) - set(written) == {after["output_s3_key"]}
        assert after == before | {"output_s3_key": after["output_s3_key"]}

    async def test_pointers_outlive_the_failure_and_redis(self, world, mina):
        """后处理失败后保存可重试指针"""
        world.model.script = [NONSENSE]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        await mina.ended(task_id)
        pointers = (await mina.row(task_id))["metadata"]["artifacts"]
        assert pointers["markdown_s3_key"] in await mina.stored(task_id)
        assert pointers["provider_task_id"]
        await mina.parts.redis.delete(mina.state_key(task_id))
        world.model.script = [FOX]
        assert (await mina.retry(task_id, "postprocess")).status_code == 200
        task = await mina.ended(task_id)
        assert (task["status"], world.mineru.calls["submit"]) == ("completed", 1)
        assert task["metadata"]["artifacts"] == pointers

    @pytest.mark.parametrize("gone", ["manifest", "document"])
    async def test_it_says_so_when_what_was_read_is_gone(self, alice, gone):
        """从后处理阶段重试：产物已不存在"""
        task_id = await alice.submit(PAGE)
        await alice.ended(task_id)
        [key] = [each for each in await alice.stored(task_id) if f"/1/{gone}" in each]
        await alice.parts.store.delete(key)
        answer = await alice.retry(task_id, "postprocess")
        assert (answer.status_code, answer.json()["code"]) == (409, "ETL_ARTEFACT_GONE")
        assert (await alice.row(task_id))["status"] == "completed"
        assert (await alice.retry(task_id, "ocr")).status_code == 200
        assert (await alice.ended(task_id))["status"] == "completed"

    async def test_what_vanishes_between_the_stages_ends_the_task_with_the_reason(self, world, mina):
        """后处理阶段执行时 markdown 已不存在"""
        leave = asyncio.Event()
        world.model.script = [waits_for(leave, {}, status=500)]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        await mina.shown(task_id, lambda _: world.model.asked, "asks the model")
        [key] = [each for each in await mina.stored(task_id) if "/1/document" in each]
        await mina.parts.store.delete(key)
        leave.set()
        task = await mina.ended(task_id)
        assert (task["status"], task["error"]["code"]) == ("failed", "ETL_ARTEFACT_GONE")
        assert (task["error"]["stage"], world.mineru.calls["submit"]) == ("postprocess", 1)

    async def test_a_task_that_runs_is_not_begun_a_second_time(self, queuer):
        """从指定阶段重试：任务仍在运行"""
        task_id = await queuer.submit(PAGE)
        for stage in ("ocr", "postprocess"):
            answer = await queuer.retry(task_id, stage)
            assert (answer.status_code, answer.json()["code"]) == (409, "ETL_NOT_ENDED")

    async def test_a_stage_must_be_named(self, alice):
        """从指定阶段重试：阶段名有误"""
        task_id = await alice.submit(PAGE)
        await alice.ended(task_id)
        for body in ({}, {"from_stage": "llm"}, {"from_stage": None}):
            answer = await alice.http.post(f"{TASKS}/{task_id}/retry", json=body)
            assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID"), body


class TestFromOcr:
    async def test_the_document_is_read_anew_beside_the_old_artefacts(self, world, mina):
        """从 OCR 阶段重试"""
        task_id = await mina.submit(PAGE)
        first = (await mina.ended(task_id))["result"]
        assert (await mina.retry(task_id, "ocr")).json()["phase"] == "ocr"
        task = await mina.ended(task_id)
        assert (task["status"], world.mineru.calls["submit"]) == ("completed", 2)
        assert task["result"]["markdown_s3_key"].startswith(f"etl/{task_id}/2/")
        assert first["markdown_s3_key"] in await mina.stored(task_id)

    async def test_one_that_fails_leaves_no_pointers_to_what_nobody_goes_on_from(self, world, mina):
        """从 OCR 阶段重试失败：不保留失效的指针"""
        task_id = await mina.submit(PAGE)
        await mina.ended(task_id)
        world.mineru.behave(states=["failed"], err_code=-60010)
        await mina.retry(task_id, "ocr")
        task = await mina.ended(task_id)
        assert (task["status"], task["error"]["stage"], task["result"]) == ("failed", "ocr", None)
        assert (await mina.row(task_id))["metadata"].get("artifacts") is None
        assert (await mina.retry(task_id, "postprocess")).json()["code"] == "ETL_ARTEFACT_GONE"

    async def test_the_newest_rule_is_used_only_if_asked_for(self, world, mina):
        """重试时沿用任务自身的规则版本"""
        world.model.script = [FOX]
        rule_id = await mina.rule(json_schema=SCHEMA)
        task_id = await mina.submit(PAGE, rule_id=rule_id)
        await mina.ended(task_id)
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        await mina.http.put(f"/api/v1/etl/rules/{rule_id}", json={"json_schema": schema})
        await mina.retry(task_id, "postprocess")
        again = await mina.ended(task_id)
        assert (again["rule_version"], again["result"]["data"]) == (1, {"animal": "fox"})
        world.model.script = [says({"colour": "red"})]
        await mina.retry(task_id, "postprocess", newest_rule=True)
        newest = await mina.ended(task_id)
        assert (newest["rule_version"], newest["result"]["data"]) == (2, {"colour": "red"})


class TestByItself:
    async def test_each_stage_is_tried_as_often_as_set_and_names_where_it_failed(self, world, mina):
        """阶段重试策略可配置"""
        world.mineru.behave(faults={"submit": [500] * 50})
        task_id = await mina.submit(PAGE)
        ocr = await mina.ended(task_id)
        assert (ocr["status"], ocr["phase"], ocr["attempts"]) == ("failed", "ocr", {"ocr": 2, "postprocess": 0})
        assert (ocr["error"]["stage"], ocr["error"]["attempts"]) == ("ocr", 2)
        assert (ocr["error"]["code"], "500" in ocr["error"]["reason"]) == ("OCR_UNAVAILABLE", True)

        world.anew()
        world.model.script = [refused(500)]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        made = await mina.ended(task_id)
        assert (made["status"], made["phase"], made["attempts"]) == (
            "failed",
            "postprocess",
            {"ocr": 0, "postprocess": 3},
        )
        assert (made["error"]["stage"], made["error"]["code"]) == ("postprocess", "LLM_UNAVAILABLE")
        assert (len(world.model.asked), world.mineru.calls["submit"]) == (3, 1)

    async def test_a_pause_is_kept_told_and_forgotten_when_it_is_over(self, world, mina):
        """阶段重试策略可配置：退避"""
        world.model.script, leave = [FOX], asyncio.Event()
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        await mina.ended(task_id)
        patient = await world.somebody(mina.merchant, **NOBODY, **PATIENT)
        world.model.script = [refused(500)]
        await patient.retry(task_id, "postprocess")
        assert await run_stage(patient.parts.workshop, Stage.POSTPROCESS, task_id)
        pause = await patient.task(task_id)
        assert (pause["status"], pause["attempts"]) == ("llm_processing", {"ocr": 0, "postprocess": 1})
        due = datetime.fromisoformat(pause["next_attempt_at"])
        assert due - (await patient.row(task_id))["updated_at"] > timedelta(minutes=1)
        asked = len(world.model.asked)
        assert not await run_stage(patient.parts.workshop, Stage.POSTPROCESS, task_id)  # woken too early
        assert len(world.model.asked) == asked

        world.model.script = [waits_for(leave, {"animal": "fox"})]
        await patient.rows("update etl_task set due_at = now() where task_id = %s", task_id)
        attempt = asyncio.create_task(run_stage(patient.parts.workshop, Stage.POSTPROCESS, task_id))
        again = await patient.shown(task_id, lambda _: len(world.model.asked) > asked, "is tried again")
        assert (again["next_attempt_at"], again["error"]["code"]) == (None, "LLM_UNAVAILABLE")
        leave.set()
        await attempt
        task = await patient.ended(task_id)
        assert (task["status"], task["error"], task["attempts"]["postprocess"]) == ("completed", None, 1)

    async def test_two_retries_at_once_are_one(self, world, mina):
        """从指定阶段重试：并发重试"""
        task_id = await mina.submit(PAGE)
        await mina.ended(task_id)
        answers = await asyncio.gather(*(mina.retry(task_id, "ocr") for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        await mina.ended(task_id)
        assert (await mina.row(task_id))["generation"] == 2
        assert world.mineru.calls["submit"] == 2

    async def test_what_no_attempt_can_mend_fails_at_once(self, alice):
        """阶段重试策略可配置：不可重试的错误"""
        task_id = await alice.submit(PAGE[: len(PAGE) // 2])
        task = await alice.ended(task_id)
        assert (task["status"], task["error"]["stage"], task["attempts"]["ocr"]) == ("failed", "ocr", 1)

    async def test_a_failure_is_in_redis_in_postgresql_and_in_the_log(self, world, mina):
        """错误处理（阶段化）"""
        world.model.script = [NONSENSE]
        task_id = await mina.submit(PAGE, rule_id=await mina.rule(json_schema=SCHEMA))
        task = await mina.ended(task_id)
        row, state = await mina.row(task_id), await mina.state(task_id)
        assert (row["status"], state["status"]) == ("failed", "failed")
        assert row["error"] == json.loads(state["error"]) == task["error"]
        assert (row["error"]["stage"], row["error"]["code"]) == ("postprocess", "LLM_OUTPUT_INVALID")
        assert row["error"]["details"]["errors"]
        assert row["metadata"]["artifacts"]["markdown_s3_key"] in await mina.stored(task_id)
        lines = [json.loads(line) for line in world.log.read_text().splitlines() if line.startswith("{")]
        assert any(line["event"] == "etl.ended" and line["task"] == task_id for line in lines)
