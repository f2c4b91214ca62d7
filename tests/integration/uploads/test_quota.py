"""What a merchant's uploads hold of the disk never passes its quota, by whatever way the bytes come."""

import asyncio
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.tus import metadata
from tests.support.uploads import CALLER, body, refused, uploads_in

from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.uploads.tus import Chunk, Uploads, Wish, admit_upload

KiB, MiB = 1 << 10, 1 << 20
FULL = "UPLOAD_SLOTS_FULL"
Make = Callable[..., Uploads]


@pytest.fixture
async def process(database: Database, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes uploads as one process after the other sees them: the same directory, the same database."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            closing(uploads_in(tmp_path, database, **{"tus_bytes_per_merchant": MiB, **settings}))
        )


@pytest.fixture
async def uploads(process: Make) -> Uploads:
    return process()


async def sent(uploads: Uploads, size: int, **wish: Any) -> str:
    """The id of a finished upload of so many bytes."""
    made = await uploads.create(CALLER, Wish(size, **{"metadata": metadata(), **wish}))
    await uploads.append(made.upload_id, "m-1", Chunk(0, size), body(*pieces(size)))
    return made.upload_id


def pieces(size: int) -> Iterator[bytes]:
    for start in range(0, size, 64 * KiB):
        yield bytes(min(64 * KiB, size - start))


async def outcomes(*wishes: Any) -> tuple[int, set[str]]:
    """How many were granted, and the codes of the others."""
    found = await asyncio.gather(*wishes, return_exceptions=True)
    codes = {each.code.code for each in found if isinstance(each, PenstockError)}
    assert not [each for each in found if isinstance(each, Exception) and not isinstance(each, PenstockError)]
    return sum(not isinstance(each, Exception) for each in found), codes


def on_disk(uploads: Uploads) -> int:
    return sum(file.stat().st_size for file in uploads.directory.iterdir())


class TestWhatCounts:
    async def test_small_uploads_count_and_finished_ones_too(self, uploads):
        for _ in range(3):
            await sent(uploads, 300 * KiB)
        assert await refused(sent(uploads, 300 * KiB)) == FULL

    async def test_even_an_empty_file_takes_a_block(self, process):
        uploads = process(tus_bytes_per_merchant=3 * 4096)
        for _ in range(3):
            await sent(uploads, 0)
        assert await refused(sent(uploads, 0)) == FULL

    async def test_an_upload_without_a_length_ends_where_the_quota_does(self, uploads):
        made = await uploads.create(CALLER, Wish(None, metadata()))
        assert await refused(uploads.append(made.upload_id, "m-1", Chunk(0), body(*pieces(3 * MiB)))) == FULL
        assert on_disk(uploads) <= MiB
        assert (await uploads.find(made.upload_id, "m-1")).received <= MiB

    async def test_many_of_them_share_one_quota(self, uploads):
        made = [await uploads.create(CALLER, Wish(None, metadata())) for _ in range(6)]
        each = [uploads.append(one.upload_id, "m-1", Chunk(0), body(*pieces(MiB))) for one in made]
        await outcomes(*each)
        assert on_disk(uploads) <= MiB

    async def test_a_length_that_is_said_later_is_reserved_then(self, uploads):
        made = await uploads.create(CALLER, Wish(None, metadata()))
        said = uploads.append(made.upload_id, "m-1", Chunk(0, length=2 * MiB), body(b"abc"))
        assert await refused(said) == FULL
        await uploads.append(made.upload_id, "m-1", Chunk(0, length=MiB - 8 * KiB), body(b"abc"))
        assert await refused(uploads.create(CALLER, Wish(16 * KiB, metadata()))) == FULL

    async def test_one_that_ends_without_a_length_gives_back_what_it_did_not_use(self, uploads):
        made = await uploads.create(CALLER, Wish(None, metadata()))
        await uploads.append(made.upload_id, "m-1", Chunk(0), body(bytes(64 * KiB)))
        await uploads.append(made.upload_id, "m-1", Chunk(64 * KiB, length=64 * KiB), body())
        await uploads.create(CALLER, Wish(900 * KiB, metadata()))

    async def test_another_merchant_has_a_quota_of_its_own(self, uploads):
        await sent(uploads, 900 * KiB)
        other = replace(CALLER, merchant_id="m-2")
        assert (await uploads.create(other, Wish(900 * KiB, metadata()))).received == 0


class TestGivingBack:
    async def test_a_cancelled_upload(self, uploads):
        first = await sent(uploads, 900 * KiB)
        assert await refused(sent(uploads, 900 * KiB)) == FULL
        await uploads.cancel(first, CALLER)
        await sent(uploads, 900 * KiB)

    async def test_an_upload_that_became_a_job(self, uploads, database):
        first = await sent(uploads, 900 * KiB)
        async with database.transaction() as tx:
            await admit_upload(tx, first, uuid4(), "u-1")
        await sent(uploads, 900 * KiB)

    async def test_a_reservation_that_was_never_written(self, uploads, database):
        """As a server leaves it that is killed before the first byte: the row is the reservation, and it expires."""
        made = await uploads.create(CALLER, Wish(900 * KiB, metadata()))
        async with database.transaction() as tx:
            await tx.execute("update tus_uploads set status = 'EXPIRED' where upload_id = %s", (made.upload_id,))
        await sent(uploads, 900 * KiB)


class TestAtOnce:
    """Two processes, as many requests as they take."""

    async def test_uploads_that_begin(self, process):
        places = [process(), process()]
        wishes = [place.create(CALLER, Wish(100 * KiB, metadata())) for _ in range(20) for place in places]
        assert await outcomes(*wishes) == (10, {FULL})

    async def test_uploads_of_many_merchants_in_any_order(self, process):
        """No two processes wait for each other's merchants: PostgreSQL would end one of them after a second."""
        places = [process(tus_bytes_per_merchant=200 * KiB), process(tus_bytes_per_merchant=200 * KiB)]
        callers = [replace(CALLER, merchant_id=f"m-{number}") for number in range(8)]
        wishes = [
            place.create(caller, Wish(100 * KiB, metadata()))
            for _ in range(3) for place, order in zip(places, (callers, callers[::-1]), strict=True) for caller in order
        ]  # fmt: skip
        assert await outcomes(*wishes) == (16, {FULL})

    async def test_parts_that_are_joined(self, process):
        places = [process(), process()]
        part = await sent(places[0], 300 * KiB, metadata="", concat="partial")
        joins = [place.create(CALLER, Wish(None, metadata(), final(part))) for _ in range(3) for place in places]
        assert await outcomes(*joins) == (2, {FULL})
        assert on_disk(places[0]) <= MiB

    async def test_lengths_that_are_said(self, process):
        places = [process(), process()]
        made = [await places[0].create(CALLER, Wish(None, metadata())) for _ in range(8)]
        said = [
            places[n % 2].append(one.upload_id, "m-1", Chunk(0, length=300 * KiB), body(b"a"))
            for n, one in enumerate(made)
        ]
        assert await outcomes(*said) == (3, {FULL})


def final(*parts: str) -> str:
    return "final;" + " ".join(f"/api/v1/uploads/{part}" for part in parts)


class TestJoining:
    async def test_a_part_is_not_taken_twice(self, uploads):
        part = await sent(uploads, 4, metadata="", concat="partial")
        assert await refused(uploads.create(CALLER, Wish(None, metadata(), final(part, part)))) == (
            "UPLOAD_CONCAT_INVALID"
        )

    async def test_a_join_that_fails_leaves_neither_bytes_nor_a_reservation(self, uploads):
        parts = [await sent(uploads, 200 * KiB, metadata="", concat="partial") for _ in range(2)]
        before = {file.name for file in uploads.directory.iterdir()}
        uploads.path(parts[1]).write_bytes(b"too short")
        assert await refused(uploads.create(CALLER, Wish(None, metadata(), final(*parts)))) == "STORE_UNAVAILABLE"
        assert {file.name for file in uploads.directory.iterdir()} == before
        await sent(uploads, 600 * KiB)

    async def test_nobody_else_may_look_into_our_directory(self, process, tmp_path):
        shared = tmp_path / "shared"
        shared.mkdir(mode=0o750)
        uploads, others = process(), process(tus_upload_dir=shared)
        uploads.directory.chmod(0o755)  # as an earlier version left it
        for each in (uploads, others):
            await each.prepare()
        assert stat.S_IMODE(uploads.directory.stat().st_mode) == 0o700
        assert stat.S_IMODE(shared.stat().st_mode) == 0o750  # the operator's: it may have a group of its own

    async def test_only_we_can_read_what_was_joined(self, uploads):
        parts = [await sent(uploads, 4, metadata="", concat="partial") for _ in range(2)]
        await uploads.create(CALLER, Wish(None, metadata(), final(*parts)))
        modes = {stat.S_IMODE(file.stat().st_mode) for file in uploads.directory.iterdir()}
        assert modes == {0o600}


class TestTheDisk:
    async def test_a_merchant_gets_no_more_than_its_share_of_what_is_free(self, process, monkeypatch):
        monkeypatch.setattr("penstock.uploads.tus.quota.free_bytes", lambda _: 10 * MiB)
        uploads = process(tus_bytes_per_merchant=1 << 40, tus_keep_free_bytes=0, tus_free_space_percent=20)
        await uploads.create(CALLER, Wish(2 * MiB, metadata()))
        assert await refused(uploads.create(CALLER, Wish(4096, metadata()))) == FULL

    async def test_bytes_are_refused_before_the_disk_is_full(self, process):
        begun = await process().create(CALLER, Wish(300 * KiB, metadata()))
        full = process(tus_keep_free_bytes=1 << 60)
        assert await refused(full.append(begun.upload_id, "m-1", Chunk(0), body(*pieces(300 * KiB)))) == "DISK_FULL"
        assert on_disk(full) == 0
