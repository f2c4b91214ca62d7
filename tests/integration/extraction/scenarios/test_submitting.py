"""Submitting a document: from where it may come, what is refused, and what a repeat does."""

import asyncio
import io

import pytest
from PIL import Image, ImageDraw
from tests.support.etl import until
from tests.support.etl_world import NOBODY
from tests.support.pdfs import text_pages

from penstock.kernel.identity import Role

PAGE = text_pages(1, lines=3)


@pytest.fixture
async def uploader(world):
    """At a desk that looks into files, as jobs need it."""
    return await world.somebody(role="serve")


def picture(kind: str = "PNG") -> bytes:
    made, drawn = io.BytesIO(), Image.new("L", (400, 120), 255)
    ImageDraw.Draw(drawn).text((20, 30), "FOX 1042", fill=0, font_size=60)
    drawn.save(made, kind)
    return made.getvalue()


class TestSubmitting:
    async def test_row_then_run_state_then_job_and_the_answer_is_a_number(self, queuer):
        """提交 ETL 任务"""
        rule_id = await queuer.rule(postprocess_mode="skip")
        answer = await queuer.ask_for(object_key=await queuer.place(PAGE), rule_id=rule_id)
        assert answer.status_code == 202
        task_id = answer.json()["task_id"]
        assert answer.json() == {"task_id": task_id, "status": "pending"}
        assert isinstance(task_id, int)
        assert answer.headers["Location"] == f"/api/v1/etl/tasks/{task_id}"
        assert ((await queuer.row(task_id))["rule_id"], (await queuer.row(task_id))["status"]) == (rule_id, "pending")
        state = await queuer.state(task_id)
        assert (state["status"], state["progress"], state["phase"]) == ("pending", "0", "ocr")
        queue = queuer.parts.etl.queue
        assert state["job_id"].strip('"') in {each.decode() for each in await queue.arq.zrange(queue.name, 0, -1)}

    async def test_the_queue_is_ready_and_the_worker_is_a_process_of_its_own(self, world, alice):
        """任务队列初始化"""
        queue = alice.parts.etl.queue
        assert queue.name.endswith(":etl")
        assert alice.parts.settings.etl.worker_count == 3
        task_id = await alice.submit(PAGE)
        await alice.ended(task_id)

        async def worker():
            rows = await alice.rows("select worker_id from worker_heartbeats where status = 'ALIVE'")
            return [each["worker_id"] for each in rows if each["worker_id"] != alice.parts.worker_id]

        assert await until(worker, 30, "the worker is known")

        async def is_empty():
            return not await queue.arq.zcard(queue.name)

        await until(is_empty, 30, "what was done is no longer queued")

    @pytest.mark.parametrize("given", [{}, {"object_key": "a", "upload_id": "upl_a"}, {"object_key": ""}, {"rule": 1}])
    async def test_exactly_one_source_is_named(self, queuer, given):
        """提交 ETL 任务：来源有误"""
        answer = await queuer.ask_for(**given)
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")


class TestSources:
    async def test_a_pdf_by_tus(self, uploader):
        """提交 ETL 任务：tus 上传的 PDF"""
        upload_id = await uploader.upload(PAGE, "Letter.pdf", filetype="application/pdf", purpose="etl")
        task_id = (await uploader.ask_for(upload_id=upload_id)).json()["task_id"]
        task = await uploader.ended(task_id)
        assert (task["status"], task["filename"]) == ("completed", "Letter.pdf")
        markdown = await uploader.http.get(f"/api/v1/etl/tasks/{task_id}/markdown")
        assert markdown.headers["content-type"].startswith("text/markdown")
        assert "quick brown fox" in markdown.text
        page = (await uploader.http.get(f"/api/v1/etl/tasks/{task_id}/pages/1")).json()
        assert "quick brown fox" in page["spans"][0]["text"]
        assert (await uploader.http.get(f"/api/v1/etl/tasks/{task_id}/pages/2")).status_code == 404

    async def test_a_picture_by_tus(self, uploader):
        """提交 ETL 任务：tus 上传的 PNG"""
        upload_id = await uploader.upload(picture(), "photo.png", filetype="image/png", purpose="etl")
        task = await uploader.ended((await uploader.ask_for(upload_id=upload_id)).json()["task_id"])
        assert (task["status"], task["error"]) == ("completed", None)
        assert "1042" in (await uploader.parts.store.get(task["result"]["markdown_s3_key"])).decode()
        assert task["metadata"]["ocr"]["pages_recognised"] == 1

    async def test_a_picture_is_for_etl_only(self, uploader):
        """提交 ETL 任务：未声明 purpose 的图片上传被拒绝"""
        with pytest.raises(AssertionError, match="INVALID_FILE_TYPE"):
            await uploader.upload(picture(), "photo.png", filetype="image/png")

    async def test_the_file_of_a_job(self, uploader, alice):
        """提交 ETL 任务：作业的文件"""
        upload_id = await uploader.upload(PAGE, "Letter.pdf")
        made = await uploader.http.post("/api/v1/jobs", json={"upload_id": upload_id})
        assert made.status_code == 201, made.text
        job_id = made.json()["job_id"]
        stranger = await alice.ask_for(job_id=job_id)
        assert (stranger.status_code, stranger.json()["code"]) == (404, "ETL_SOURCE_NOT_FOUND")
        task = await uploader.ended((await uploader.ask_for(job_id=job_id)).json()["task_id"])
        assert (task["status"], task["filename"]) == ("completed", "Letter.pdf")

    async def test_an_upload_that_is_not_finished_or_not_ones_own(self, uploader, alice):
        """提交 ETL 任务：上传未完成或不属于本商户"""
        headers = {"Tus-Resumable": "1.0.0", "Upload-Length": "10", "Upload-Metadata": "filename YS5wZGY="}
        begun = (await uploader.http.post("/api/v1/uploads", headers=headers)).headers["Location"]
        answer = await uploader.ask_for(upload_id=begun.rpartition("/")[2])
        assert (answer.status_code, answer.json()["code"]) == (409, "UPLOAD_UNFINISHED")
        upload_id = await uploader.upload(PAGE, "Letter.pdf")
        answer = await alice.ask_for(upload_id=upload_id)
        assert (answer.status_code, answer.json()["code"]) == (404, "UPLOAD_NOT_FOUND")

    async def test_only_the_own_inbox_is_open(self, world, queuer, alice):
        """提交 ETL 任务：对象键不在本商户收件箱内"""
        theirs = await alice.place(PAGE)
        task_id = await alice.submit(PAGE)
        result = (await alice.ended(task_id))["result"]
        sneaky = f"inbox/{queuer.merchant}/../{alice.merchant}/a.pdf"
        for key in (theirs, result["markdown_s3_key"], f"inbox/{queuer.merchant}", sneaky, "/etc/passwd"):
            answer = await queuer.ask_for(object_key=key)
            assert answer.status_code in (400, 404), key
            assert answer.json()["code"] in ("ETL_SOURCE_NOT_FOUND", "OBJECT_KEY_INVALID", "REQUEST_INVALID"), key
        operator = await world.somebody(user=Role.OPERATOR, **NOBODY)
        assert (await operator.ask_for(object_key=theirs)).status_code == 202

    async def test_a_file_that_is_not_there(self, queuer):
        """提交 ETL 任务：文件不存在"""
        answer = await queuer.ask_for(object_key=f"inbox/{queuer.merchant}/none.pdf")
        assert (answer.status_code, answer.json()["code"]) == (404, "ETL_SOURCE_NOT_FOUND")


class TestRefusals:
    @pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a spreadsheet", b"GIF89a...", b"plain text", b"%PD", b"\x89PN"])
    async def test_other_kinds_of_file(self, queuer, data):
        """提交 ETL 任务：文件类型不支持（以内容为准）"""
        answer = await queuer.ask_for(object_key=await queuer.place(data, "invoice.pdf"))
        assert (answer.status_code, answer.json()["code"]) == (415, "ETL_FILE_TYPE")
        assert "application/pdf" in answer.json()["details"]["accepted"]
        assert ("reason" in answer.json()["details"]) is (data == b"")

    async def test_a_file_beyond_the_largest(self, world):
        """提交 ETL 任务：文件过大"""
        small = await world.somebody(ETL_MAX_FILE_MB="1", **NOBODY)
        answer = await small.ask_for(object_key=await small.place(PAGE + bytes(1 << 20)))
        assert (answer.status_code, answer.json()["code"]) == (413, "ETL_FILE_TOO_LARGE")

    async def test_a_queue_that_is_full(self, world, queuer):
        """提交 ETL 任务：队列已满"""
        waiting = [await queuer.submit(PAGE) for _ in range(2)]
        small = await world.somebody(ETL_QUEUE_SIZE="2", **NOBODY)
        answer = await small.ask_for(object_key=await small.place(PAGE))
        assert (answer.status_code, answer.json()["code"]) == (429, "ETL_QUEUE_FULL")
        assert int(answer.headers["Retry-After"]) > 0
        assert await small.rows("select 1 from etl_task where merchant_id = %s", small.merchant) == []
        assert [(await queuer.row(task_id))["status"] for task_id in waiting] == ["pending", "pending"]


class TestTheShareOfAMerchant:
    async def test_of_many_at_once_as_many_get_in_as_there_are_places(self, world):
        settings = {"ETL_QUEUE_SIZE": "1000", "ETL_QUEUE_SHARE": "0.003", **NOBODY}
        greedy, other = await world.somebody(**settings), await world.somebody(**settings)
        key = await greedy.place(PAGE)
        answers = await asyncio.gather(*(greedy.ask_for(object_key=key) for _ in range(10)))
        assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 7
        assert {answer.json().get("code") for answer in answers} == {None, "ETL_QUEUE_SHARE_FULL"}
        assert len(await greedy.rows("select 1 from etl_task where merchant_id = %s", greedy.merchant)) == 3
        assert await other.submit(PAGE) > 0

    async def test_a_retry_needs_a_place_too(self, world):
        only = await world.somebody(ETL_QUEUE_SHARE="0.001", **NOBODY)
        task_id = await only.submit(PAGE)
        assert (await only.cancel(task_id)).status_code == 200
        await only.submit(PAGE)
        answer = await only.retry(task_id, "ocr")
        assert (answer.status_code, answer.json()["code"]) == (429, "ETL_QUEUE_SHARE_FULL")
        assert (await only.row(task_id))["status"] == "cancelled"


class TestARepeat:
    async def test_one_key_is_one_task(self, queuer):
        """提交 ETL 任务：幂等键"""
        key = await queuer.place(PAGE)
        answers = await asyncio.gather(*(queuer.ask_for(object_key=key, key="invoice-1") for _ in range(6)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["task_id"] for answer in answers}) == 1
        assert len(await queuer.rows("select 1 from etl_task where merchant_id = %s", queuer.merchant)) == 1

    async def test_a_key_with_another_request_is_refused(self, queuer, alice):
        """提交 ETL 任务：幂等键被用于不同请求"""
        key = await queuer.place(PAGE)
        first = (await queuer.ask_for(object_key=key, key="invoice-1")).json()["task_id"]
        answer = await queuer.ask_for(object_key=key, rule_id=1, key="invoice-1")
        assert (answer.status_code, answer.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
        theirs = await alice.ask_for(object_key=await alice.place(PAGE), key="invoice-1")
        assert theirs.json()["task_id"] != first
