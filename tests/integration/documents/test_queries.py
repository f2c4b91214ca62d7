"""What may be asked about jobs, and by whom."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.edge import bearer
from tests.support.jobs import fresh, pdf

from penstock.kernel import cursors, error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.retention import STATE_TRANSITIONS, Archiver, RetentionSettings

NOBODYS = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"
PLACES = ["", "/pages", "/pages/1", "/pages/1/image", "/skus", "/result", "/progress", "/evaluation", "/timeline",
          "/events"]  # fmt: skip


async def set_job(office, job_id, **columns):
    for name, value in columns.items():
        await office.rows(f"update pdf_jobs set {name} = %s where job_id = %s returning 1", value, job_id)


async def set_pages(office, job_id, *statuses):
    for number, status in enumerate(statuses, 1):
        await office.rows(
            "update pages set status = %s where job_id = %s and page_number = %s returning 1", status, job_id, number
        )


async def insert_job(office, name: str, **columns) -> str:
    """A row without its file, for lists."""
    given = {"source_file": name, "file_hash": "h", "merchant_id": "m-1", "uploaded_by": "a", "total_pages": 1,
             "file_size": 1, **columns}  # fmt: skip
    [row] = await office.rows(
        f"insert into pdf_jobs ({', '.join(given)}) values ({', '.join(['%s'] * len(given))}) returning job_id",
        *given.values(),
    )
    return str(row["job_id"])


class TestTenancy:
    @pytest.mark.parametrize("place", PLACES)
    async def test_another_merchants_job_does_not_exist(self, office, place):
        job = await office.job()
        answers = [
            await office.get(f"/{job['job_id']}{place}", merchant="m-2"),
            await office.get(f"/{job['job_id']}{place}", merchant="m-2", role="annotator"),
            await office.get(f"/{NOBODYS}{place}", role="admin"),
        ]
        assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(404, "JOB_NOT_FOUND")}

    async def test_another_merchants_job_cannot_be_cancelled(self, office):
        job = await office.job()
        answer = await office.cancel(job["job_id"], merchant="m-2")
        assert (answer.status_code, answer.json()["code"]) == (404, "JOB_NOT_FOUND")
        assert (await office.get(f"/{job['job_id']}")).json()["status"] == "UPLOADED"

    async def test_operators_and_admins_see_everyones_and_may_ask_for_ones(self, office):
        mine, theirs = await office.job(), await office.job(merchant="m-2")
        for role in ("operator", "admin"):
            seen = (await office.get("", role=role, merchant="ops")).json()["jobs"]
            assert {job["job_id"] for job in seen} == {mine["job_id"], theirs["job_id"]}
            answer = await office.client.get("/api/v1/jobs", params={"merchant": "m-2"}, headers=bearer(role, "ops"))
            assert [job["job_id"] for job in answer.json()["jobs"]] == [theirs["job_id"]]

    async def test_others_see_their_own_and_are_denied_anothers(self, office):
        mine = await office.job()
        await office.job(merchant="m-2")
        assert [job["job_id"] for job in (await office.get("")).json()["jobs"]] == [mine["job_id"]]
        answer = await office.client.get("/api/v1/jobs", params={"merchant": "m-2"}, headers=bearer("uploader", "m-1"))
        assert (answer.status_code, answer.json()["code"]) == (403, "MERCHANT_DENIED")


class TestListing:
    async def names(self, office, **query):
        return [job["source_file"] for job in (await office.get("", **query)).json()["jobs"]]

    async def test_filters(self, office):
        now = datetime.now(UTC)
        await insert_job(office, "Spring 100%.pdf", category="toys", created_at=now - timedelta(days=3))
        await insert_job(office, "summer.pdf", status="CANCELLED", created_at=now - timedelta(days=2))
        await insert_job(office, "spring_2.pdf", status="FULL_IMPORTED", created_at=now - timedelta(days=1))
        assert await self.names(office) == ["spring_2.pdf", "summer.pdf", "Spring 100%.pdf"]
        assert await self.names(office, status=["CANCELLED", "FULL_IMPORTED"]) == ["spring_2.pdf", "summer.pdf"]
        assert await self.names(office, user_status="completed") == ["spring_2.pdf"]
        assert await self.names(office, category="toys") == ["Spring 100%.pdf"]
        assert await self.names(office, q="SPRING") == ["spring_2.pdf", "Spring 100%.pdf"]
        assert await self.names(office, q="%") == ["Spring 100%.pdf"]
        assert await self.names(office, q="_") == ["spring_2.pdf"]
        assert await self.names(office, q="\\") == []
        since = (now - timedelta(days=2, hours=1)).isoformat()
        assert await self.names(office, created_from=since) == ["spring_2.pdf", "summer.pdf"]
        assert await self.names(office, created_before=since) == ["Spring 100%.pdf"]
        assert await self.names(office, sort="source_file", order="asc") == [
            "Spring 100%.pdf", "spring_2.pdf", "summer.pdf",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "query",
        [
            {"status": "NONE"},
            {"limit": 0},
            {"limit": 201},
            {"sort": "status"},
            {"created_from": "yesterday"},
            {"q": ""},
        ],
        ids=str,
    )
    async def test_what_cannot_be_asked_is_refused(self, office, query):
        answer = await office.get("", **query)
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")

    @pytest.mark.parametrize(
        "cursor",
        [
            "x",
            "",
            "W10",
            cursors.pack("jobs source_file desc", "a", NOBODYS),
            cursors.pack("jobs created_at desc", 1, 2),
            cursors.pack("jobs created_at desc", "then", NOBODYS),
            cursors.pack("jobs created_at desc", "2020-01-01", "x"),
        ],
    )
    async def test_a_cursor_that_is_not_of_this_question_is_refused(self, office, cursor):
        answer = await office.get("", cursor=cursor)
        assert (answer.status_code, answer.json()["code"]) == (400, "CURSOR_INVALID")

    async def test_a_cursor_with_what_no_file_name_can_hold_is_refused(self, office):
        answer = await office.get("", sort="source_file", cursor=cursors.pack("jobs source_file desc", "\x00", NOBODYS))
        assert (answer.status_code, answer.json()["code"]) == (400, "CURSOR_INVALID")

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_reading_on_neither_skips_nor_repeats_whatever_is_added_meanwhile(self, office, loop, data):
        sort = data.draw(st.sampled_from(["created_at", "source_file", "total_pages", "file_size"]))
        order, limit = data.draw(st.sampled_from(["asc", "desc"])), data.draw(st.integers(1, 4))
        rows = st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 2))
        before = data.draw(st.lists(rows, min_size=1, max_size=10))
        meanwhile = data.draw(st.lists(rows, max_size=6))
        loop.run_until_complete(self._read_on(office, (sort, order, limit), before, meanwhile))

    async def _read_on(self, office, asked, before, meanwhile):
        await office.rows("delete from pdf_jobs returning 1")
        sort, order, limit = asked
        add = lambda row: insert_job(office, row[0], total_pages=row[1], file_size=row[2])  # noqa: E731
        expected = [await add(row) for row in before]
        seen, cursor, pending = [], None, list(meanwhile)
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            part = (await office.get("", sort=sort, order=order, limit=limit, **more)).json()
            seen += [job["job_id"] for job in part["jobs"]]
            cursor = part["next_cursor"]
            if cursor is None:
                break
            if pending:
                await add(pending.pop())
        assert len(seen) == len(set(seen))
        assert set(expected) <= set(seen)


class TestWords:
    """What users are told follows from the state and the counts."""

    CASES = (
        ("UPLOADED", {}, "processing", None, "Waiting to be processed"),
        ("PROCESSING", {}, "processing", None, "The machine is at work: 1 of 4 pages done"),
        ("PARTIAL_IMPORTED", {}, "partial_success", None, "Partly done; 2 pages wait for people"),
        ("FULL_IMPORTED", {}, "completed", None, "The result can be downloaded"),
        ("DEGRADED_HUMAN", {"degrade_reason": "low_confidence"}, "needs_manual",
         "The machine is not sure enough, so people take over", "See the review queue: 3 pages to do"),
        ("EVAL_FAILED", {}, "failed", "The evaluation failed; people will take over",
         "The evaluation failed; people will take over"),
        ("ORPHANED", {}, "failed", error_codes.JOB_ORPHANED.message.en, error_codes.JOB_ORPHANED.remedy.en),
        ("CANCELLED", {}, "failed", error_codes.JOB_CANCELLED.message.en, error_codes.JOB_CANCELLED.remedy.en),
    )  # fmt: skip

    async def test_in_english(self, office):
        job_id = (await office.job(fresh(4)))["job_id"]
        await set_pages(office, job_id, "AI_COMPLETED", "HUMAN_QUEUED", "AI_FAILED", "AI_QUEUED")
        for status, columns, user_status, message, hint in self.CASES:
            await set_job(office, job_id, status=status, degrade_reason=None)
            await set_job(office, job_id, **columns)
            job = (await office.get(f"/{job_id}", headers={"Accept-Language": "en"})).json()
            told = (job["user_status"], job["error_message"], job["action_hint"])
            assert told == (user_status, message, hint), status
            assert job["progress_percent"] == (100 if status == "FULL_IMPORTED" else 25)

    async def test_in_chinese(self, office):
        job_id = (await office.job(fresh(2)))["job_id"]
        await set_job(office, job_id, status="PROCESSING")
        await set_pages(office, job_id, "AI_COMPLETED", "AI_PROCESSING")
        job = (await office.get(f"/{job_id}", headers={"Accept-Language": "zh-CN"})).json()
        assert job["action_hint"] == "AI 处理中（第 1/2 页）"
        [listed] = (await office.get("", headers={"Accept-Language": "zh-CN"})).json()["jobs"]
        assert (listed["action_hint"], listed["progress_percent"]) == (job["action_hint"], 50)


class TestPages:
    async def test_part_by_part_filtered_and_one(self, office):
        job_id = (await office.job(pdf("one", "", "three", "four", "")))["job_id"]
        first = (await office.get(f"/{job_id}/pages", limit=2)).json()
        rest = (await office.get(f"/{job_id}/pages", limit=3, cursor=first["next_cursor"])).json()
        assert [page["page_number"] for page in first["pages"] + rest["pages"]] == [1, 2, 3, 4, 5]
        assert rest["next_cursor"] is None
        blank = (await office.get(f"/{job_id}/pages", status="BLANK")).json()["pages"]
        assert [page["page_number"] for page in blank] == [2, 5]
        assert (await office.get(f"/{job_id}/pages/3")).json()["status"] == "PENDING"
        answer = await office.get(f"/{job_id}/pages/6")
        assert (answer.status_code, answer.json()["code"]) == (404, "PAGE_NOT_FOUND")
        assert (await office.get(f"/{job_id}/pages", cursor="zz")).json()["code"] == "CURSOR_INVALID"

    async def test_of_a_page_that_was_done_again_the_newest_attempt_is_shown_and_counted(self, office):
        job_id = (await office.job(fresh(2)))["job_id"]
        await office.rows(
            "insert into pages (job_id, page_number, attempt_no, status) values (%s, 1, 2, 'AI_COMPLETED') returning 1",
            job_id,
        )
        pages = (await office.get(f"/{job_id}/pages")).json()["pages"]
        assert [(page["attempt_no"], page["status"]) for page in pages] == [(2, "AI_COMPLETED"), (1, "PENDING")]
        progress = (await office.get(f"/{job_id}/progress")).json()
        assert progress["pages_by_status"] == {"AI_COMPLETED": 1, "PENDING": 1}
        assert (progress["progress_percent"], progress["pages_done"], progress["total_pages"]) == (50, 1, 2)


class TestPictures:
    async def test_a_page_is_drawn_once_and_kept_and_served_with_a_tag(self, office):
        job = await office.job()
        place = f"/{job['job_id']}/pages/1/image"
        answers = await asyncio.gather(*(office.get(place, dpi=72) for _ in range(4)))
        assert {answer.status_code for answer in answers} == {200}
        [picture] = {answer.content for answer in answers}
        assert picture[:4] == b"RIFF"
        assert picture[8:12] == b"WEBP"
        assert office.examiner.rendered == 1
        assert await office.desk.store.get(f"jobs/{job['job_id']}/pages/1-72.webp") == picture
        assert answers[0].headers["content-type"] == "image/webp"
        assert answers[0].headers["cache-control"].startswith("private")
        again = await office.get(place, dpi=72, headers={"If-None-Match": answers[0].headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    @pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("jpeg", b"\xff\xd8\xff")])
    async def test_other_formats(self, office, kind, start):
        job = await office.job()
        answer = await office.get(f"/{job['job_id']}/pages/1/image", format=kind)
        assert answer.content.startswith(start)
        assert answer.headers["content-type"] == f"image/{kind}"

    async def test_a_resolution_is_rounded_up_to_one_of_a_few(self, office):
        """Otherwise each page could be kept in 165 resolutions and three formats."""
        job = await office.job(pdf("a page"))
        place = f"/{job['job_id']}/pages/1/image"
        tags = [(await office.get(place, dpi=dpi)).headers["etag"] for dpi in (36, 71, 72, 73, 96, 100, 151, 200)]
        assert [tag.split("-")[-2] for tag in tags] == ["72", "72", "72", "100", "100", "100", "200", "200"]
        assert office.examiner.rendered == 3
        assert len([name for name in await office.files() if "/pages/" in name]) == 3

    @pytest.mark.parametrize("query", [{"dpi": 35}, {"dpi": 201}, {"dpi": 5000}, {"format": "gif"}], ids=str)
    async def test_what_is_not_drawn_is_refused(self, office, query):
        job = await office.job()
        answer = await office.get(f"/{job['job_id']}/pages/1/image", **query)
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")

    async def test_a_page_that_is_not_there_and_a_file_that_is_gone(self, office):
        job = await office.job()
        answer = await office.get(f"/{job['job_id']}/pages/2/image")
        assert (answer.status_code, answer.json()["code"]) == (404, "PAGE_NOT_FOUND")
        await office.desk.store.delete(f"jobs/{job['job_id']}/source.pdf")
        answer = await office.get(f"/{job['job_id']}/pages/1/image")
        assert (answer.status_code, answer.json()["code"]) == (404, "JOB_FILE_GONE")


async def add_sku(office, job_id: str, sku_id: str, page: int = 1, *, superseded: bool = False) -> None:
    await office.rows(
        "insert into skus (sku_id, job_id, page_number, validity, superseded, attributes)"
        " values (%s, %s, %s, 'valid', %s, '{\"name\": \"chair\"}') returning 1",
        sku_id, job_id, page, superseded,
    )  # fmt: skip


class TestRecords:
    async def test_only_those_in_force_part_by_part(self, office):
        job_id = (await office.job())["job_id"]
        for number in range(5):
            await add_sku(office, job_id, f"s{number}", page=number % 2 + 1)
        await add_sku(office, job_id, "old", superseded=True)
        first = (await office.get(f"/{job_id}/skus", limit=3)).json()
        rest = (await office.get(f"/{job_id}/skus", limit=3, cursor=first["next_cursor"])).json()
        assert [sku["sku_id"] for sku in first["skus"] + rest["skus"]] == ["s0", "s1", "s2", "s3", "s4"]
        assert rest["next_cursor"] is None
        assert [sku["sku_id"] for sku in (await office.get(f"/{job_id}/skus", page=2)).json()["skus"]] == ["s1", "s3"]

    async def test_the_result_is_there_when_something_is_imported_and_not_before(self, office):
        job_id = (await office.job(fresh(2)))["job_id"]
        await add_sku(office, job_id, "s1")
        answer = await office.get(f"/{job_id}/result")
        assert (answer.status_code, answer.json()["code"]) == (409, "RESULT_NOT_READY")
        for status in ("PARTIAL_IMPORTED", "FULL_IMPORTED"):
            await set_job(office, job_id, status=status)
            result = (await office.get(f"/{job_id}/result")).json()
            assert (result["schema_version"], result["job"]["status"]) == ("1", status)
            assert [len(result["pages"]), len(result["skus"])] == [2, 1]

    async def test_the_evaluation_is_of_this_content_and_this_version(self, office):
        job = await office.job()
        answer = await office.get(f"/{job['job_id']}/evaluation")
        assert (answer.status_code, answer.json()["code"]) == (404, "EVALUATION_NOT_READY")
        for version, confidence in (("default@1", 0.5), ("default@2", 0.9)):
            await office.rows(
                "insert into evaluations (file_hash, config_version, doc_confidence, route, dimension_scores,"
                " weights_snapshot, prescan, sampling, model_used)"
                " values (%s, %s, %s, 'AUTO', '{}', '{}', '{}', '{}', 'rules') returning 1",
                job["file_hash"], version, confidence,
            )  # fmt: skip
        found = (await office.get(f"/{job['job_id']}/evaluation")).json()
        assert (found["config_version"], found["doc_confidence"]) == ("default@1", 0.5)


class TestTimeline:
    async def test_every_change_also_those_in_the_archive_part_by_part(self, office):
        job_id = (await office.job(pdf("one", "")))["job_id"]
        await office.rows("update state_transitions set \"timestamp\" = now() - interval '100 days' returning 1")
        archiver = Archiver(office.database, office.desk.store, STATE_TRANSITIONS, RetentionSettings())
        moved = await archiver.archive(before=datetime.now(UTC) - timedelta(days=90))
        assert moved.rows == 5
        await office.cancel(job_id)
        first = (await office.get(f"/{job_id}/timeline", limit=2)).json()
        rest = (await office.get(f"/{job_id}/timeline", cursor=first["next_cursor"])).json()
        changes = [
            (change["entity_type"], change["page_number"], change["to_status"], change["operator"])
            for change in first["changes"] + rest["changes"]
        ]
        assert changes == [
            ("job", None, "UPLOADED", "alice"), ("page", 1, "PENDING", "gateway"), ("page", 2, "BLANK", "gateway"),
            ("job", None, "CANCELLED", "alice"),
        ]  # fmt: skip
        assert rest["next_cursor"] is None


class TestCursors:
    @given(st.text(max_size=40))
    def test_no_text_breaks_the_reader(self, text):
        with pytest.raises(PenstockError) as refused:
            cursors.unpack(text, "q", int)
        assert refused.value.code is error_codes.CURSOR_INVALID

    @given(st.integers(-(2**53), 2**53), st.text(max_size=40))
    def test_what_was_packed_comes_back(self, number, text):
        assert cursors.unpack(cursors.pack("q", number, text), "q", int, str) == [number, text]
