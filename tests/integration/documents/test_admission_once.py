"""However often a job is asked for, and by however many: an upload becomes one; so does a content, unless told."""

import asyncio
from types import MappingProxyType

from tests.integration.documents.conftest import opened
from tests.support.jobs import fresh

from penstock.documents import sweep_admissions
from penstock.documents.settings import DocumentSettings
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError


class TestAtOnce:
    async def test_ten_requests_for_one_upload_make_one_job_and_inspect_once(self, office):
        upload = await office.upload()
        answers = await asyncio.gather(*(office.post(upload) for _ in range(10)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["job_id"] for answer in answers}) == 1
        assert office.examiner.inspected == 1
        assert len(await office.files()) == 1

    async def test_ten_requests_for_a_bad_file_are_refused_alike_and_inspect_once(self, office):
        upload = await office.upload(b"no PDF")
        answers = await asyncio.gather(*(office.post(upload) for _ in range(10)))
        assert {answer.status_code for answer in answers} == {400}
        assert len({answer.json()["details"]["job_id"] for answer in answers}) == 1
        assert office.examiner.inspected == 1

    async def test_those_who_wait_share_a_refusal_that_leaves_no_job(self, office):
        content = fresh()
        earlier = await office.job(content)
        upload = await office.upload(content)
        arrived = asyncio.Event()
        office.examiner.before = arrived.wait
        asking = [asyncio.create_task(office.post(upload)) for _ in range(5)]
        await until(lambda: office.examiner.inspected == 2)
        await asyncio.sleep(0.3)  # the others begin to wait; if they come later they only do more work
        arrived.set()
        answers = await asyncio.gather(*asking)
        assert {answer.json()["code"] for answer in answers} == {"FILE_HASH_DUPLICATE"}
        assert {answer.json()["details"]["job_id"] for answer in answers} == {earlier["job_id"]}
        assert office.examiner.inspected == 2

    async def test_who_waits_with_another_wish_is_not_refused_with_the_first(self, office):
        content = fresh()
        await office.job(content)
        upload, hold = await office.upload(content), asyncio.Event()
        office.examiner.before = hold.wait
        first = asyncio.create_task(office.post(upload))
        await until(lambda: office.examiner.inspected == 2)
        second = asyncio.create_task(office.post(upload, allow_duplicate=True))
        await asyncio.wait({second}, timeout=0.3)  # it has looked, and waits
        hold.set()
        assert ((await first).status_code, (await second).status_code) == (409, 201)

    async def test_who_waits_too_long_is_told_to_come_back(self, office):
        upload = await office.upload()
        hold = asyncio.Event()
        office.examiner.before = hold.wait
        first = asyncio.create_task(office.post(upload))
        await until(lambda: office.examiner.inspected == 1)
        impatient = DocumentSettings(admission_wait_sec=1)
        async with opened(office.parts, office.examiner, settings=impatient) as other:
            answer = await other.post(upload)
        assert (answer.status_code, answer.json()["code"]) == (409, "ADMISSION_UNDER_WAY")
        assert int(answer.headers["Retry-After"]) > 0
        hold.set()
        assert (await first).status_code == 201

    async def test_one_who_lost_the_lease_does_not_write_ahead_of_the_one_who_has_it(self, office):
        upload = await office.upload()
        holds = [asyncio.Event(), asyncio.Event()]

        async def in_turn():
            await holds[office.examiner.inspected - 1].wait()

        office.examiner.before = in_turn
        late = asyncio.create_task(office.post(upload))
        await until(lambda: office.examiner.inspected == 1)
        await office.rows("update job_admissions set leased_until = now() - interval '1 s' returning 1")
        holder = asyncio.create_task(office.post(upload))
        await until(lambda: office.examiner.inspected == 2)
        [row] = await office.rows("select job_ids from job_admissions")
        holds[0].set()
        await asyncio.wait({late}, timeout=1)  # it would have written by now
        holds[1].set()
        answers = [await late, await holder]
        assert {answer.json()["job_id"] for answer in answers} == {str(row["job_ids"][1])}

    async def test_a_stranger_does_not_learn_that_somebody_is_at_it(self, office):
        upload = await office.upload()
        hold = asyncio.Event()
        office.examiner.before = hold.wait
        first = asyncio.create_task(office.post(upload))
        await until(lambda: office.examiner.inspected == 1)
        answer = await office.post(upload, merchant="m-2")
        assert not first.done()
        assert (answer.status_code, answer.json()["code"]) == (404, "UPLOAD_NOT_FOUND")
        hold.set()
        assert (await first).status_code == 201

    async def test_one_who_lost_the_lease_cannot_write_and_answers_with_the_others_job(self, office):
        upload = await office.upload()
        hold = asyncio.Event()
        office.examiner.before = hold.wait
        late = asyncio.create_task(office.post(upload))
        await until(lambda: office.examiner.inspected == 1)
        await office.rows("update job_admissions set leased_until = now() - interval '1 s' returning 1")
        office.examiner.before = None
        job = (await office.post(upload)).json()
        hold.set()
        answer = await late
        assert (answer.status_code, answer.json()["job_id"]) == (201, job["job_id"])
        assert await office.files() == [f"jobs/{job['job_id']}/source.pdf"]


class TestDuplicates:
    async def test_the_same_content_again_is_refused_with_the_earlier_job(self, office):
        content = fresh()
        earlier = await office.job(content)
        answer = await office.post(await office.upload(content))
        assert (answer.status_code, answer.json()["code"]) == (409, "FILE_HASH_DUPLICATE")
        assert answer.json()["details"] == {"job_id": earlier["job_id"]}
        assert answer.json()["severity"] == "warning"

    async def test_unless_it_is_wanted_or_anothers_or_the_earlier_one_was_cancelled(self, office):
        content = fresh()
        first = await office.job(content)
        await office.job(content, merchant="m-2")
        second = await office.job(content, allow_duplicate=True)
        for job in (first, second):
            assert (await office.cancel(job["job_id"])).status_code == 200
        await office.job(content)

    async def test_of_two_uploads_of_one_content_at_once_one_wins(self, office):
        content = fresh()
        uploads = [await office.upload(content) for _ in range(4)]
        answers = await asyncio.gather(*(office.post(upload) for upload in uploads))
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
        [winner] = [answer.json()["job_id"] for answer in answers if answer.status_code == 201]
        assert await office.files() == [f"jobs/{winner}/source.pdf"]


class TestIdempotencyKeys:
    KEY = MappingProxyType({"Idempotency-Key": "order-1"})

    async def test_the_same_request_gives_the_same_job(self, office):
        upload = await office.upload()
        first = (await office.post(upload, headers=self.KEY)).json()
        again = await office.post(upload, headers=self.KEY)
        assert (again.status_code, again.json()["job_id"]) == (201, first["job_id"])

    async def test_another_request_with_the_key_is_refused(self, office):
        upload = await office.upload()
        job = (await office.post(upload, headers=self.KEY)).json()
        for other in (await office.post(upload, headers=self.KEY, category="x"),
                      await office.post(await office.upload(), headers=self.KEY)):  # fmt: skip
            assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
            assert other.json()["details"] == {"job_id": job["job_id"]}

    async def test_another_merchants_key_is_another_key(self, office):
        await office.post(await office.upload(), headers=self.KEY)
        answer = await office.post(await office.upload(merchant="m-2"), merchant="m-2", headers=self.KEY)
        assert answer.status_code == 201

    async def test_a_request_that_failed_for_our_trouble_can_be_repeated_with_its_key(self, office):
        async def away():
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE)

        upload = await office.upload()
        office.examiner.before = away
        assert (await office.post(upload, headers=self.KEY)).status_code == 503
        office.examiner.before = None
        assert (await office.post(upload, headers=self.KEY)).status_code == 201

    async def test_keys_are_forgotten_after_their_time_and_not_before(self, office):
        await office.post(await office.upload(), headers=self.KEY)
        await office.rows("update idempotency_keys set created_at = now() - interval '47 h' returning 1")
        await sweep_admissions(office.desk)
        assert len(await office.rows("select 1 from idempotency_keys")) == 1
        await office.rows("update idempotency_keys set created_at = now() - interval '49 h' returning 1")
        await sweep_admissions(office.desk)
        assert await office.rows("select 1 from idempotency_keys") == []


async def until(condition, seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
