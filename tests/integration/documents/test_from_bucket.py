"""A PDF that a phone sent straight to the bucket: the same job, or the same refusal, as by tus."""

import asyncio
from functools import partial

import pytest
from tests.support.arriving import PDF, arrived
from tests.support.jobs import fresh, pdf
from tests.support.shelf import ShelfBucket

from penstock.documents.from_bucket import become_job
from penstock.kernel import error_codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.settings import DirectSettings
from penstock.uploads.tus import UPLOAD_ID, Expiry
from penstock.uploads.tus import UploadSettings as TusSettings

PHONE = Caller("alice", "m-1", Role.UPLOADER)


def _direct(database) -> DirectDesk:
    return DirectDesk(database, ShelfBucket(), DirectSettings(bucket_url="gs://shelf"), SystemClock(), None)


class Pocket:
    """A phone, and what becomes of what it sends."""

    def __init__(self, office) -> None:
        self.office, self.direct = office, _direct(office.database)
        self.shelf = self.direct.bucket
        self.become = partial(become_job, office.desk, self.shelf)

    async def send(self, content: bytes, name: str = "spring.pdf") -> dict:
        return await arrived(self.direct, PHONE, content, PDF, name)

    async def row(self, row: dict) -> dict:
        async with self.direct.database.transaction() as tx:
            return await fetch_one(tx, "select * from catalog.uploads where upload_id = %s", (row["upload_id"],))

    async def rows(self, query: str, *values) -> list[dict]:
        return await self.office.rows(query, *values)

    def files(self) -> list[str]:
        return [each.name for each in self.office.desk.uploads.directory.iterdir()]


@pytest.fixture
def pocket(office):
    return Pocket(office)


async def _told(office, job_id) -> list[tuple]:
    """The history and the events of a job, less its id."""
    events = await office.rows(
        "select event_type, replace(payload::text, entity_id, '') as payload, merchant_id, notice,"
        " replace(topics::text, entity_id, '') as topics"
        " from outbox_events where entity_id = %s order by event_id",
        str(job_id),
    )
    steps = await office.rows(
        "select from_status, to_status, trigger, operator from state_transitions where entity_id = %s order by id",
        str(job_id),
    )
    return [tuple(each.values()) for each in (*events, *steps)]


class TestBecoming:
    async def test_the_job_is_the_one_that_tus_would_have_led_to(self, pocket, office):
        row = await pocket.send(pdf("one", "two", "three"), "spring.pdf")
        await pocket.become(row)
        [job] = await pocket.rows("select * from pdf_jobs")
        assert (await pocket.row(row))["job_id"] == job["job_id"]
        assert (await pocket.row(row))["error_code"] is None
        upload = await office.upload(pdf("one", "two", "three"))
        by_tus = (await office.post(upload, allow_duplicate=True, role="uploader")).json()
        [other] = await pocket.rows("select * from pdf_jobs where job_id = %s", by_tus["job_id"])
        own = {"job_id", "upload_id", "created_at", "uploaded_at", "updated_at", "source_key", "output_base_url"}
        assert {k: v for k, v in job.items() if k not in own} == {k: v for k, v in other.items() if k not in own}
        told = await _told(office, job["job_id"])
        assert told == await _told(office, other["job_id"])
        assert {each[0] for each in told} >= {"job.uploaded", "pages.pending"}

    async def test_the_upload_behind_it_is_one_of_tus(self, pocket, office):
        row = await pocket.send(fresh(), "C:\\scans\\Frühling")
        await pocket.become(row)
        [upload] = await pocket.rows("select * from tus_uploads")
        [job] = await pocket.rows("select * from pdf_jobs")
        assert UPLOAD_ID.fullmatch(upload["upload_id"])
        assert (upload["status"], upload["job_id"]) == ("ADMITTED", job["job_id"])
        assert (upload["filename"], job["source_file"]) == ("Frühling.pdf", "Frühling.pdf")
        assert pocket.files() == []

    async def test_a_repeat_changes_nothing(self, pocket):
        row = await pocket.send(fresh())
        await pocket.become(row)
        before = await pocket.row(row)
        pocket.shelf.is_away = True
        await pocket.become(row)
        assert await pocket.row(row) == before
        assert len(await pocket.rows("select 1 from pdf_jobs")) == 1

    async def test_several_at_once_end_in_one_job(self, pocket):
        row = await pocket.send(fresh())
        await asyncio.gather(*(pocket.become(row) for _ in range(4)))
        [job] = await pocket.rows("select * from pdf_jobs")
        assert (await pocket.row(row))["job_id"] == job["job_id"]


class TestEnds:
    @pytest.mark.parametrize(
        ("content", "code"),
        [(b"<html>no PDF</html>", "INVALID_MIME"), (pdf("one", script=True), "SECURITY_JAVASCRIPT_EMBEDDED")],
        ids=["no PDF", "a script in it"],
    )
    async def test_a_refused_file_leaves_its_rejected_job(self, pocket, content, code):
        row = await pocket.send(content)
        await pocket.become(row)
        [job] = await pocket.rows("select * from pdf_jobs")
        noted = await pocket.row(row)
        assert (job["status"], noted["status"]) == ("REJECTED", "completed")
        assert (noted["job_id"], noted["error_code"]) == (job["job_id"], code)
        assert pocket.files() == []

    async def test_content_that_the_merchant_has_sent_before_leads_to_the_earlier_job(self, pocket, office):
        content = fresh()
        earlier = await office.job(content)
        row = await pocket.send(content)
        await pocket.become(row)
        noted = await pocket.row(row)
        assert (str(noted["job_id"]), noted["error_code"]) == (earlier["job_id"], "FILE_HASH_DUPLICATE")
        assert len(await pocket.rows("select 1 from pdf_jobs")) == 1
        assert pocket.files() == []

    async def test_an_object_that_is_gone(self, pocket):
        row = await pocket.send(fresh())
        pocket.shelf.objects.clear()
        await pocket.become(row)
        noted = await pocket.row(row)
        assert (noted["job_id"], noted["error_code"]) == (None, "UPLOAD_GONE")

    async def test_a_file_larger_than_tus_takes(self, pocket, office):
        row = await pocket.send(fresh())
        largest = TusSettings(tus_max_size_gb=1).largest
        office.desk.uploads.settings = TusSettings(tus_max_size_gb=1)
        await pocket.become(dict(row) | {"size_bytes": largest + 1})
        noted = await pocket.row(row)
        assert (noted["job_id"], noted["error_code"]) == (None, "FILE_SIZE_EXCEEDED")

    async def test_an_upload_that_its_owner_ended(self, pocket, office):
        row = await pocket.send(fresh())
        office.examiner.before = partial(_raise, "SANDBOX_UNAVAILABLE")
        with pytest.raises(PenstockError):
            await pocket.become(row)
        [upload] = await pocket.rows("select upload_id from tus_uploads")
        await office.desk.uploads.cancel(upload["upload_id"], PHONE)
        await pocket.become(row)
        noted = await pocket.row(row)
        assert (noted["job_id"], noted["error_code"]) == (None, "UPLOAD_GONE")


async def _raise(code: str) -> None:
    raise PenstockError(error_codes.REGISTRY[code])


class TestTrouble:
    """Of ours: nothing is noted, and another time there is one job."""

    async def test_a_bucket_that_is_away(self, pocket):
        row = await pocket.send(fresh())
        pocket.shelf.is_away = True
        await self._later(pocket, row, "STORE_UNAVAILABLE")
        pocket.shelf.is_away = False
        await self._ends_well(pocket, row)

    async def test_a_sandbox_that_is_away(self, pocket, office):
        row = await pocket.send(fresh())
        office.examiner.before = partial(_raise, "SANDBOX_UNAVAILABLE")
        await self._later(pocket, row, "SANDBOX_UNAVAILABLE")
        office.examiner.before = None
        await self._ends_well(pocket, row)

    async def test_bytes_that_went_missing_are_fetched_again(self, pocket, office):
        row = await pocket.send(fresh())
        office.examiner.before = partial(_raise, "SANDBOX_UNAVAILABLE")
        await self._later(pocket, row, "SANDBOX_UNAVAILABLE")
        office.examiner.before = None
        [name] = pocket.files()
        (office.desk.uploads.directory / name).unlink()
        await self._ends_well(pocket, row)

    async def test_bytes_that_go_missing_in_the_middle_are_fetched_another_time(self, pocket, office):
        row = await pocket.send(fresh())

        async def lose() -> None:
            office.examiner.before = None
            for name in pocket.files():
                (office.desk.uploads.directory / name).unlink()

        office.examiner.before = lose
        await self._later(pocket, row, "STORE_UNAVAILABLE")
        await self._ends_well(pocket, row)

    async def test_an_upload_that_expired_meanwhile_is_followed_by_another(self, pocket, office):
        row = await pocket.send(fresh())
        office.examiner.before = partial(_raise, "SANDBOX_UNAVAILABLE")
        await self._later(pocket, row, "SANDBOX_UNAVAILABLE")
        office.examiner.before = None
        await pocket.rows("update tus_uploads set expires_at = now() - interval '1 h' returning 1")
        await Expiry(office.database, office.desk.uploads).run(_Free())
        assert pocket.files() == []
        await self._ends_well(pocket, row)
        uploads = await pocket.rows("select status from tus_uploads order by created_at")
        assert [each["status"] for each in uploads] == ["EXPIRED", "ADMITTED"]

    async def _later(self, pocket, row, code):
        with pytest.raises(PenstockError) as refused:
            await pocket.become(row)
        assert refused.value.code.code == code
        noted = await pocket.row(row)
        assert (noted["job_id"], noted["error_code"]) == (None, None)

    async def _ends_well(self, pocket, row):
        await pocket.become(row)
        [job] = await pocket.rows("select job_id, status from pdf_jobs")
        assert ((await pocket.row(row))["job_id"], job["status"]) == (job["job_id"], "UPLOADED")
        assert pocket.files() == []


class _Free:
    """A fence that nobody else wants."""

    async def hold(self, tx) -> None:
        pass
