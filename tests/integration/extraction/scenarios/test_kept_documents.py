"""Documents by upload are kept in the store: each once, one at a time for a merchant, and within its quota."""

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.etl_world import NOBODY

from penstock.extraction.expiry import expire
from penstock.extraction.submit import Submission, submit
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.kernel.objectstores.local import LocalStore

KiB = 1024


def document(size: int = 700 * KiB) -> bytes:
    return b"%PDF-1.7\n" + os.urandom(size)


class CountingStore(LocalStore):
    """Knows how many copies were written into it, and how many at once."""

    copies = under_way = most = 0

    @asynccontextmanager
    async def _written(self, body):
        self.copies, self.under_way = self.copies + 1, self.under_way + 1
        self.most = max(self.most, self.under_way)
        try:
            async with super()._written(body) as temporary:
                yield temporary
        finally:
            self.under_way -= 1


@pytest.fixture
async def uploader(world):
    return await world.somebody(role="serve", **NOBODY)


@pytest.fixture
async def limited(world):
    """May keep a single MiB."""
    return await world.somebody(role="serve", **NOBODY, ETL_STORED_MB_PER_MERCHANT="1")


def root_of(somebody) -> Path:
    return Path(somebody.world.settings["PENSTOCK_STORE_URL"].removeprefix("file://"))


def submission(somebody, upload_id: str) -> Submission:
    return Submission(Caller("u", somebody.merchant, Role.UPLOADER), upload_id=upload_id)


async def kept(somebody) -> list[int]:
    rows = await somebody.rows("select size_bytes from etl_content where merchant_id = %s", somebody.merchant)
    return [row["size_bytes"] for row in rows]


class TestPlacing:
    async def test_the_same_upload_submitted_many_times_at_once_is_copied_once(self, uploader):
        store = CountingStore(root_of(uploader))
        desk = replace(uploader.parts.etl, store=store)
        upload_id = await uploader.upload(document(), "a.pdf")
        rows = await asyncio.gather(*(submit(desk, submission(uploader, upload_id)) for _ in range(8)))
        assert len({row["task_id"] for row in rows}) == 8
        assert (len({row["source_key"] for row in rows}), store.copies) == (1, 1)

    async def test_one_merchants_files_are_written_one_after_the_other(self, uploader):
        store = CountingStore(root_of(uploader))
        desk = replace(uploader.parts.etl, store=store)
        uploads = [await uploader.upload(document(), f"{n}.pdf") for n in range(4)]
        await asyncio.gather(*(submit(desk, submission(uploader, each)) for each in uploads))
        assert (store.copies, store.most) == (4, 1)

    async def test_a_disk_that_is_nearly_full_takes_no_more(self, uploader):
        desk = replace(uploader.parts.etl, keep_free=1 << 60)
        first = await uploader.upload(document(), "a.pdf")
        with pytest.raises(PenstockError) as refused:
            await submit(desk, submission(uploader, first))
        assert refused.value.code.code == "DISK_FULL"
        await submit(uploader.parts.etl, submission(uploader, first))
        await submit(desk, submission(uploader, first))  # it is there, and needs no room


class TestTheQuota:
    async def test_what_uploads_leave_in_the_store_is_counted_though_they_are_deleted(self, limited, uploader):
        first, codes = document(), []
        for data in (first, first, document()):
            upload_id = await limited.upload(data, "a.pdf")
            answer = await limited.ask_for(upload_id=upload_id)
            codes.append((answer.status_code, answer.json().get("code")))
            await limited.http.delete(f"/api/v1/uploads/{upload_id}", headers={"Tus-Resumable": "1.0.0"})
        assert codes == [(202, None), (202, None), (409, "ETL_STORED_QUOTA")]
        assert await kept(limited) == [len(first)]
        other = await uploader.ask_for(upload_id=await uploader.upload(document(), "b.pdf"))
        assert other.status_code == 202

    async def test_a_task_that_was_refused_after_its_bytes_came_counts_too(self, world):
        eager = await world.somebody(
            role="serve", **NOBODY, ETL_STORED_MB_PER_MERCHANT="1", ETL_QUEUE_SIZE="1000", ETL_QUEUE_SHARE="0.001"
        )
        codes = []
        for number in range(3):
            answer = await eager.ask_for(upload_id=await eager.upload(document(400 * KiB), f"{number}.pdf"))
            codes.append(answer.json().get("code"))
        assert codes == [None, "ETL_QUEUE_SHARE_FULL", "ETL_STORED_QUOTA"]
        assert len(await kept(eager)) == 2

    async def test_of_many_at_once_no_more_come_in_than_fit(self, limited):
        uploads = [await limited.upload(document(400 * KiB), f"{n}.pdf") for n in range(4)]
        desks = [replace(limited.parts.etl, placing=type(limited.parts.etl.placing)(1, 1)) for _ in uploads]
        answers = await asyncio.gather(
            *(submit(desk, submission(limited, each)) for desk, each in zip(desks, uploads, strict=True)),
            return_exceptions=True,
        )
        assert sorted(type(each).__name__ for each in answers) == ["PenstockError"] * 2 + ["dict"] * 2


class TestRemoving:
    async def test_a_document_goes_with_the_last_task_that_read_it(self, uploader, limited):
        data = document()
        for somebody in (uploader, limited):
            assert (await somebody.ask_for(upload_id=await somebody.upload(data, "a.pdf"))).status_code == 202
        [row] = await uploader.rows("select source_key from etl_task where merchant_id = %s", uploader.merchant)
        path = root_of(uploader) / row["source_key"]
        for somebody, stays in ((uploader, True), (limited, False)):
            await somebody.rows(
                "update etl_content set kept_since = now() - interval '200 days' where merchant_id = %s",
                somebody.merchant,
            )
            await expire(somebody.parts.etl)
            assert len(await kept(somebody)) == 1  # its task is known
            await somebody.rows("delete from etl_task where merchant_id = %s", somebody.merchant)
            await expire(somebody.parts.etl)
            assert (await kept(somebody), path.exists()) == ([], stays)

    async def test_one_that_was_submitted_lately_stays(self, uploader):
        await uploader.ask_for(upload_id=await uploader.upload(document(), "a.pdf"))
        await uploader.rows("delete from etl_task where merchant_id = %s", uploader.merchant)
        await expire(uploader.parts.etl)
        assert len(await kept(uploader)) == 1
