"""An upload becomes a job: in order, once, with its file, or not at all."""

import asyncio
import hashlib
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
from tests.integration.documents.conftest import Counting, opened
from tests.support.edge import bearer
from tests.support.jobs import pdf

from penstock.documents import CallLimits
from penstock.documents.settings import DocumentSettings
from penstock.kernel import error_codes
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstores import LocalStore
from penstock.kernel.rategate import ForgivingGate
from penstock.kernel.redis import connect
from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner as PdfExaminer
from penstock.pdf import PdfSettings, pdf_sandbox


class TestAGoodFile:
    async def test_it_becomes_a_job_with_its_pages_its_file_and_its_history(self, office):
        content = pdf("the first page", "", "the third page")
        upload = await office.upload(content, name="目录.pdf")
        answer = await office.post(upload, category="furniture", industry="retail")
        assert answer.status_code == 201
        job = answer.json()
        assert answer.headers["Location"] == f"/api/v1/jobs/{job['job_id']}"
        assert (job["status"], job["user_status"], job["total_pages"]) == ("UPLOADED", "processing", 3)
        assert (job["source_file"], job["file_size"], job["merchant_id"]) == ("目录.pdf", len(content), "m-1")
        assert job["file_hash"] == hashlib.sha256(content).hexdigest()
        assert (job["category"], job["industry"], job["uploaded_by"]) == ("furniture", "retail", "alice")
        assert (job["profile_id"], job["frozen_config_version"], job["worker_id"]) == ("default", "default@1", "edge-1")
        assert job["blank_pages"] == [2]
        assert job["prescan"]["raw_metrics"]["total_pages"] == 3
        assert job["output_base_url"] is None  # a path of the server is for operators
        assert await office.desk.store.get(f"jobs/{job['job_id']}/source.pdf") == content
        pages = (await office.get(f"/{job['job_id']}/pages")).json()["pages"]
        assert [page["status"] for page in pages] == ["PENDING", "BLANK", "PENDING"]
        assert pages[0]["features"]["text_chars"] > 5
        assert not (office.desk.uploads.directory / upload).exists()
        [upload_row] = await office.rows("select status, job_id from tus_uploads")
        assert upload_row == {"status": "ADMITTED", "job_id": UUID(job["job_id"])}
        changes = await office.rows("select entity_type, to_status from state_transitions order by id")
        assert [tuple(change.values()) for change in changes] == [
            ("upload", "FINISHED"), ("job", "UPLOADED"), ("page", "PENDING"), ("page", "PENDING"), ("page", "BLANK"),
            ("upload", "ADMITTED"),
        ]  # fmt: skip

    async def test_many_pages_are_recorded_each_and_announced_in_batches_of_fifty(self, office):
        job = await office.job(pdf(*["written"] * 30, *[""] * 10))
        [counts] = await office.rows(
            "select count(*) as n, count(distinct entity_id) as pages from state_transitions where entity_type = 'page'"
        )
        assert counts == {"n": 40, "pages": 40}
        events = await office.rows(
            "select event_type, notice, topics, order_key, payload from outbox_events where event_type like 'pages.%%'"
        )
        assert [(row["event_type"], row["notice"], len(row["payload"]["pages"])) for row in events] == [
            ("pages.pending", None, 30), ("pages.blank", "pages_batch_update", 10),
        ]  # fmt: skip
        assert {(row["order_key"], *row["topics"]) for row in events} == {(f"job:{job['job_id']}",) * 2}
        assert events[1]["payload"]["pages"][0] == {"page_no": 31, "status": "BLANK"}

    async def test_dashboards_are_told_of_the_new_job(self, office):
        await office.job()
        assert await office.rows("select notice, merchant_id from outbox_events where event_type = 'job.uploaded'") == [
            {"notice": "job_created", "merchant_id": "m-1"}
        ]

    async def test_redis_learns_where_the_job_is_and_need_not(self, office, redis_client, keys):
        job = await office.job()
        key = keys.job_worker(job["job_id"])
        assert await redis_client.get(key) == b"edge-1"
        assert 6 * 86_400 < await redis_client.ttl(key) <= 7 * 86_400
        await redis_client.flushall()
        assert (await office.get(f"/{job['job_id']}")).json()["worker_id"] == "edge-1"

    async def test_a_document_of_blank_pages_goes_to_people(self, office):
        job = await office.job(pdf("", ""))
        assert (job["status"], job["route"], job["degrade_reason"]) == ("DEGRADED_HUMAN", "HUMAN_ALL", "prescan_reject")
        assert job["user_status"] == "needs_manual"
        assert (job["progress_percent"], job["action_hint"]) == (0, "See the review queue: 2 pages to do")
        [event] = await office.rows("select notice, payload from outbox_events where event_type = 'job.degraded_human'")
        assert event["notice"] == "human_needed"
        assert event["payload"]["reason"] == "prescan_reject"

    async def test_the_most_specific_profile_in_force_is_frozen(self, office):
        await office.rows(
            "insert into threshold_profiles (profile_id, version, category, industry, thresholds, confidence_weights,"
            " prescan_rules, classification_thresholds, is_active, effective_from)"
            " select v.id, '7', v.c, v.i, thresholds, confidence_weights, prescan_rules, classification_thresholds,"
            " v.active, now() + v.wait::interval from threshold_profiles, (values ('c', 'toys', null, true, '-1 day'),"
            " ('i', null, 'retail', true, '-1 day'), ('ci', 'toys', 'retail', true, '-1 day'),"
            " ('off', 'shoes', null, false, '-1 day'), ('later', 'shoes', null, true, '1 day'))"
            " v(id, c, i, active, wait)"
            " where profile_id = 'default' returning 1"
        )
        asked = [("toys", "retail"), ("toys", None), ("hats", "retail"), ("hats", None), ("shoes", None)]
        frozen = [(await office.job(category=c, industry=i))["profile_id"] for c, i in asked]
        assert frozen == ["ci", "c", "i", "default", "default"]


class TestWhoseItIs:
    async def test_the_merchant_is_the_tokens_and_never_the_bodys(self, office):
        answer = await office.post(await office.upload(), merchant_id="m-2")
        assert answer.json()["code"] == "REQUEST_INVALID"

    async def test_another_merchants_upload_does_not_exist(self, office):
        upload = await office.upload(merchant="m-2")
        for role in ("uploader", "admin"):
            answer = await office.post(upload, role=role)
            assert (answer.status_code, answer.json()["code"]) == (404, "UPLOAD_NOT_FOUND")
        await office.post(upload, merchant="m-2")
        assert (await office.post(upload)).json()["code"] == "UPLOAD_NOT_FOUND"


REFUSED = {
    "INVALID_MIME": (400, b"PK this is no PDF at all", 0),
    "EMPTY_PDF": (400, pdf(), 0),
    "PAGE_COUNT_EXCEEDED": (413, pdf(*["x"] * 41), 41),
    "SECURITY_ENCRYPTED_PDF": (400, pdf("secret", encrypted=True), 0),
    "SECURITY_JAVASCRIPT_EMBEDDED": (400, pdf("script", script=True), 1),
    "SECURITY_OBJECT_COUNT_EXCEEDED": (400, pdf("many", objects=600), 1),
}


LANGUAGES = ("zh", "en")


class TestTheOtherRefusals:
    """Each in both languages: status, severity, sentence, remedy."""

    def check(self, answer, language, status, code):
        row = error_codes.REGISTRY[code]
        body = answer.json()
        assert (answer.status_code, body["code"], body["severity"]) == (status, code, row.severity)
        assert (body["message"], body["remedy"]) == (getattr(row.message, language), getattr(row.remedy, language))
        return body["details"]

    @pytest.mark.parametrize("language", LANGUAGES)
    async def test_an_upload_that_nobody_knows(self, office, language):
        answer = await office.post("upl_none", headers={"Accept-Language": language})
        assert self.check(answer, language, 404, "UPLOAD_NOT_FOUND") == {"upload_id": "upl_none"}

    @pytest.mark.parametrize("language", LANGUAGES)
    async def test_a_job_that_nobody_knows(self, office, language):
        answer = await office.get(f"/{UUID(int=1)}", headers={"Accept-Language": language})
        assert self.check(answer, language, 404, "JOB_NOT_FOUND") == {"job_id": str(UUID(int=1))}

    @pytest.mark.parametrize("language", LANGUAGES)
    async def test_a_file_that_takes_too_long(self, office, slow_pdf, language):
        settings = PdfSettings(security_parse_timeout_sec=1)
        async with pdf_sandbox(settings, SandboxSettings(workers=1)) as sandbox:
            hasty = Counting(PdfExaminer(sandbox, settings))
            async with opened(office.parts, hasty) as other:
                answer = await other.post(await office.upload(slow_pdf), headers={"Accept-Language": language})
        details = self.check(answer, language, 400, "SECURITY_PARSE_TIMEOUT")
        [job] = await office.rows("select job_id, status, error_codes from pdf_jobs")
        assert (str(job["job_id"]), job["status"]) == (details["job_id"], "REJECTED")

    @pytest.mark.parametrize("language", LANGUAGES)
    async def test_a_full_disk(self, office, tmp_path, language):
        async with opened(office.parts, office.examiner, store=Full(tmp_path)) as other:
            answer = await other.post(await office.upload(), headers={"Accept-Language": language})
        assert set(self.check(answer, language, 503, "DISK_FULL")) == {"free", "needed"}

    @pytest.mark.parametrize("language", LANGUAGES)
    async def test_a_database_that_is_away(self, office, language):
        nowhere = Database("postgresql://nobody@127.0.0.1:1/none", name="nowhere", wait_seconds=0.3)
        await nowhere.open()
        upload = await office.upload()
        async with opened(replace(office.parts, database=nowhere), office.examiner, database=nowhere) as other:
            answer = await other.post(upload, headers={"Accept-Language": language})
        await nowhere.close()
        self.check(answer, language, 503, "DB_UNAVAILABLE")
        assert (await office.post(upload)).status_code == 201

    async def test_redis_away_costs_nothing(self, office, own_redis):
        redis = connect(own_redis.url)
        own_redis.stop()
        async with opened(office.parts, office.examiner, redis=redis) as other:
            assert (await other.post(await office.upload())).status_code == 201
        await redis.aclose()


class TestABadFile:
    @pytest.mark.parametrize("code", REFUSED)
    @pytest.mark.parametrize("language", ["zh", "en"])
    async def test_it_is_refused_with_its_code_and_kept_as_a_rejected_job(self, office, code, language):
        status, content, pages = REFUSED[code]
        upload = await office.upload(content)
        answer = await office.post(upload, headers={"Accept-Language": language})
        body = answer.json()
        row = error_codes.REGISTRY[code]
        assert (answer.status_code, body["code"], body["severity"]) == (status, code, "error")
        assert body["message"] == getattr(row.message, language)
        assert body["remedy"] == getattr(row.remedy, language)
        assert body["details"]["issues"][0]["code"] == code
        job = (await office.get(f"/{body['details']['job_id']}", headers={"Accept-Language": language})).json()
        assert (job["status"], job["user_status"], job["error_codes"][0]) == ("REJECTED", "failed", code)
        assert job["error_message"] == getattr(row.message, language)
        assert job["action_hint"] == getattr(row.remedy, language)
        assert job["total_pages"] == pages
        assert await office.files() == []
        [event] = await office.rows("select notice, payload from outbox_events where event_type = 'job.rejected'")
        assert event["notice"] == "job_failed"
        assert event["payload"]["error_code"] == code
        assert event["payload"]["sentences"]["message"] == {"zh": row.message.zh, "en": row.message.en}
        assert event["payload"]["action_hint"] == row.remedy.en

    async def test_every_reason_is_listed(self, office):
        made = pdf(*["x"] * 41, script=True)
        body = (await office.post(await office.upload(made))).json()
        assert {issue["code"] for issue in body["details"]["issues"]} >= {
            "PAGE_COUNT_EXCEEDED", "SECURITY_JAVASCRIPT_EMBEDDED",
        }  # fmt: skip

    async def test_asked_again_it_is_refused_again_with_the_same_job(self, office):
        upload = await office.upload(b"not a PDF")
        first, second = await office.post(upload), await office.post(upload)
        assert first.status_code == second.status_code == 400
        assert first.json()["details"] == second.json()["details"]
        assert office.examiner.inspected == 1
        [count] = await office.rows("select count(*) as n from pdf_jobs")
        assert count["n"] == 1

    async def test_a_refused_file_does_not_count_as_a_duplicate(self, office):
        content = pdf("script", script=True)
        answers = [(await office.post(await office.upload(content))).json()["code"] for _ in range(2)]
        assert answers == ["SECURITY_JAVASCRIPT_EMBEDDED"] * 2


class TestAnUploadThatIsNotThere:
    async def test_what_is_unfinished_unknown_or_gone_is_told_apart(self, office):
        unfinished, gone, lost = [await office.upload() for _ in range(3)]
        await office.rows("update tus_uploads set status = 'UPLOADING' where upload_id = %s returning 1", unfinished)
        await office.rows("update tus_uploads set status = 'EXPIRED' where upload_id = %s returning 1", gone)
        (office.desk.uploads.directory / lost).unlink()
        answers = [(await office.post(each)) for each in ("upl_none", unfinished, gone, lost)]
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [
            (404, "UPLOAD_NOT_FOUND"), (409, "UPLOAD_UNFINISHED"), (410, "UPLOAD_GONE"), (410, "UPLOAD_GONE"),
        ]  # fmt: skip
        assert await office.rows("select 1 from pdf_jobs") == []
        [count] = await office.rows("select count(*) as n from job_admissions")
        assert count["n"] <= 1


class Full(LocalStore):
    async def free_bytes(self) -> int | None:
        return 10


class Broken(LocalStore):
    async def put_file(self, key, path) -> None:
        raise PenstockError(error_codes.STORE_UNAVAILABLE, key=key)


class TestOurOwnTrouble:
    """No REJECTED job, nothing left over, and the same request works when the trouble is over."""

    @pytest.mark.parametrize(("store", "code"), [(Full, "DISK_FULL"), (Broken, "STORE_UNAVAILABLE")])
    async def test_a_store_that_cannot_take_it(self, office, tmp_path, store, code):
        upload = await office.upload()
        async with opened(office.parts, office.examiner, store=store(tmp_path)) as other:
            answer = await other.post(upload)
        assert (answer.status_code, answer.json()["code"]) == (503, code)
        if code == "DISK_FULL":
            size = (office.desk.uploads.directory / upload).stat().st_size
            assert answer.json()["details"] == {"free": 10, "needed": 2 * size}
        assert await office.rows("select 1 from pdf_jobs") == []
        assert (await office.post(upload)).status_code == 201

    async def test_a_sandbox_that_is_away(self, office):
        async def away():
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE)

        upload = await office.upload()
        office.examiner.before = away
        answer = await office.post(upload)
        assert (answer.status_code, answer.json()["code"]) == (503, "SANDBOX_UNAVAILABLE")
        office.examiner.before = None
        assert (await office.post(upload)).status_code == 201
        [count] = await office.rows("select count(*) as n from pdf_jobs")
        assert count["n"] == 1

    async def test_no_profile_in_force(self, office):
        await office.rows("update threshold_profiles set is_active = false returning 1")
        answer = await office.post(await office.upload())
        assert (answer.status_code, answer.json()["code"]) == (503, "PROFILE_MISSING")
        assert await office.rows("select 1 from pdf_jobs") == []

    async def test_a_commit_whose_answer_is_lost_leaves_the_job_its_file(self, office):
        class Forgetful:
            """Commits, and then does not know whether it did."""

            lost = 0

            @asynccontextmanager
            async def transaction(self):
                async with office.database.transaction() as tx:
                    yield tx
                if not self.lost and await office.rows("select 1 from pdf_jobs"):
                    self.lost += 1
                    raise PenstockError(error_codes.DB_UNAVAILABLE)

        upload, forgetful = await office.upload(), Forgetful()
        async with opened(office.parts, office.examiner, database=forgetful) as other:
            assert (await other.post(upload)).status_code == 503
        assert forgetful.lost == 1
        job = (await office.post(upload)).json()
        assert await office.files() == [f"jobs/{job['job_id']}/source.pdf"]

    async def test_a_transaction_that_fails_takes_the_file_with_it(self, office):
        upload = await office.upload()

        async def cancelled_meanwhile():
            await office.rows("update tus_uploads set status = 'CANCELLED' where upload_id = %s returning 1", upload)

        office.examiner.before = cancelled_meanwhile
        answer = await office.post(upload)
        assert (answer.status_code, answer.json()["code"]) == (409, "STATE_CHANGED")
        assert await office.files() == []
        assert await office.rows("select 1 from pdf_jobs") == []


class TestLimits:
    async def test_more_jobs_than_allowed_at_once_are_refused_with_a_time_to_wait(self, office):

        slow = DocumentSettings(job_burst=2, job_rate_per_min=1)
        limits = CallLimits(ForgivingGate(office.desk.redis, office.desk.keys), slow)
        async with opened(replace(office.parts, limits=limits), office.examiner) as limited:
            answers = [await limited.post("upl_none") for _ in range(3)]
            assert [answer.json()["code"] for answer in answers] == ["UPLOAD_NOT_FOUND"] * 2 + ["RATE_LIMITED"]
            assert answers[-1].status_code == 429
            assert 30 < int(answers[-1].headers["Retry-After"]) <= 60
            assert (await limited.post("upl_none", merchant="m-2")).json()["code"] == "UPLOAD_NOT_FOUND"

    async def test_of_a_crowd_as_many_pass_as_the_limit_allows_on_all_servers_together(self, office):

        slow = DocumentSettings(api_burst=25, api_rate_per_sec=0.01)
        servers = [CallLimits(ForgivingGate(office.desk.redis, office.desk.keys), slow) for _ in range(3)]
        calls = (servers[n % 3].one_call("m-crowd") for n in range(90))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [each for each in found if each is not None and each.code is not error_codes.RATE_LIMITED] == []
        assert found.count(None) == 25

    async def test_more_calls_than_allowed_are_refused_and_without_redis_they_pass(self, office, own_redis):

        redis = connect(own_redis.url)
        slow = DocumentSettings(api_burst=3, api_rate_per_sec=0.01)
        limits = CallLimits(ForgivingGate(redis, office.desk.keys), slow)
        async with opened(replace(office.parts, limits=limits), office.examiner) as limited:
            found = [(await limited.get("")).status_code for _ in range(5)]
            assert found == [200, 200, 200, 429, 429]
            own_redis.stop()
            assert [(await limited.get("")).status_code for _ in range(5)] == [200] * 5
        await redis.aclose()


class TestMetrics:
    async def test_jobs_and_refusals_are_counted(self, office):
        before = await self.numbers(office)
        await office.job()
        await office.post(await office.upload(pdf("x", script=True)))
        await office.cancel((await office.job())["job_id"])
        after = await self.numbers(office)
        grown = {name: after[name] - before.get(name, 0) for name in after}
        assert grown['gateway_job_created_total{status="UPLOADED"}'] == 2
        assert grown['gateway_job_created_total{status="REJECTED"}'] == 1
        assert grown["gateway_job_cancelled_total"] == 1
        assert grown['gateway_security_rejected_total{reason="javascript_embedded"}'] == 1
        assert grown["gateway_security_check_duration_seconds_count"] == 3

    async def numbers(self, office):
        text = (await office.client.get("/metrics", headers=bearer("admin"))).text
        lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("gateway_")]
        return {name: float(value) for name, _, value in lines}
