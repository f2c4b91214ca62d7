"""Data files on disks that misbehave, and the sweep of those that nobody wants."""

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from tests.support.tus import checksum, metadata
from tests.support.uploads import CALLER, WHOLE, body, refused, rest, row, suspected_long_ago, uploads_in

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.uploads.tus import Chunk, Expiry, Wish, parse_checksum, store
from penstock.uploads.tus.files import DataFile, join
from penstock.uploads.tus.writing import IDLE_SECONDS


class TestWriting:
    @pytest.fixture
    def file(self, tmp_path: Path):
        made = DataFile.open(tmp_path / "upl_x")
        yield made
        made.close()

    def test_a_disk_that_takes_a_little_at_a_time_gets_all_of_it_in_order(self, file, monkeypatch):
        write = os.pwrite
        monkeypatch.setattr(os, "pwritev", lambda target, pieces, at: write(target, b"".join(pieces)[:10], at))
        monkeypatch.setattr(os, "pwrite", lambda target, piece, at: write(target, piece[:7], at))
        file.write([WHOLE[:700], WHOLE[700:]], 5)
        assert file.path.read_bytes() == bytes(5) + WHOLE

    def test_pieces_without_number_are_written_one_after_the_other(self, file):
        pieces = [number.to_bytes(2) for number in range(1500)]
        file.write(pieces, 3)
        assert file.path.read_bytes() == bytes(3) + b"".join(pieces)

    def test_a_file_that_lost_its_name_cannot_be_locked(self, file, tmp_path):
        (tmp_path / "other").write_bytes(b"")
        (tmp_path / "other").replace(file.path)
        assert not file.try_lock()
        file.path.unlink()
        assert not file.try_lock()

    def test_a_part_that_is_shorter_than_it_should_be_is_not_joined(self, file, tmp_path):
        file.write([b"abc"], 0)
        with pytest.raises(PenstockError) as refusal:
            join([(file.path, 3), (file.path, 4)], tmp_path / "whole", 0)
        assert refusal.value.code is error_codes.STORE_UNAVAILABLE
        assert [found.name for found in tmp_path.iterdir()] == ["upl_x"]


class TestAnotherDirectory:
    async def test_bytes_that_are_counted_and_not_there_are_not_made_up(self, uploads, database, half):
        """As on an instance that does not see the directory of the others."""
        uploads.path(half).unlink()
        assert await refused(rest(uploads, half)) == "STORE_UNAVAILABLE"
        assert (await row(database, half))["received"] == 1000


class TestSyncing:
    async def test_bytes_are_synced_before_they_are_counted(self, uploads, database, half, database_url, monkeypatch):
        seen: list[tuple[int, int]] = []
        sync = os.fdatasync

        def noted(descriptor: int) -> None:
            sync(descriptor)
            with psycopg.connect(database_url) as connection:
                [received] = connection.execute("select received from tus_uploads").fetchone() or [-1]
            seen.append((os.fstat(descriptor).st_size, received))

        monkeypatch.setattr(os, "fdatasync", noted)
        await rest(uploads, half)
        assert seen == [(2000, 1000)]

    async def test_a_disk_that_failed_once_is_not_believed_later(self, uploads, database, half, monkeypatch):
        """After a failed sync the next one reports success, and the bytes are nowhere."""
        answers: list[Callable[[], None]] = [fail]
        monkeypatch.setattr(os, "fdatasync", lambda _: answers.pop()() if answers else None)
        assert await refused(rest(uploads, half)) == "STORE_UNAVAILABLE"
        assert (await row(database, half))["received"] == 1000


def fail() -> None:
    raise OSError(errno.EIO, "the disk")


class TestWhatIsLeft:
    async def test_bytes_with_a_wrong_checksum_are_not_left_in_the_file(self, uploads, half):
        owed = parse_checksum(checksum(b"other"))
        assert await refused(rest(uploads, half, owed=owed)) == "CHECKSUM_FAILED"
        assert uploads.path(half).read_bytes() == WHOLE[:1000]

    async def test_parts_that_were_joined_go_long_before_the_whole(self, uploads, database):
        part = await uploads.create(CALLER, Wish(4, concat="partial"))
        await uploads.append(part.upload_id, "m-1", Chunk(0), body(b"abcd"))
        whole = await uploads.create(CALLER, Wish(None, metadata(), f"final;/api/v1/uploads/{part.upload_id}"))
        assert uploads.path(whole.upload_id).read_bytes() == b"abcd"
        assert (await row(database, part.upload_id))["expires_at"] < whole.expires_at - timedelta(hours=12)

    async def test_a_part_that_is_removed_while_it_is_joined_is_named(self, uploads, monkeypatch):
        part = await uploads.create(CALLER, Wish(4, concat="partial"))
        await uploads.append(part.upload_id, "m-1", Chunk(0), body(b"abcd"))
        begin = uploads._quota.begin

        async def remove_then_begin(upload):
            await uploads.cancel(part.upload_id, CALLER)
            await begin(upload)

        monkeypatch.setattr(uploads._quota, "begin", remove_then_begin)
        with pytest.raises(PenstockError) as refusal:
            await uploads.create(CALLER, Wish(None, metadata(), f"final;/api/v1/uploads/{part.upload_id}"))
        assert refusal.value.code is error_codes.UPLOAD_CONCAT_INVALID
        assert refusal.value.details["part"] == part.upload_id
        assert list(uploads.directory.iterdir()) == []

    async def test_a_merchant_takes_no_more_of_the_disk_than_allowed(self, database, tmp_path):
        uploads = uploads_in(tmp_path, database, tus_bytes_per_merchant=300 << 20)
        for _ in range(3):
            await uploads.create(CALLER, Wish(100 << 20, metadata()))
        assert await refused(uploads.create(CALLER, Wish(100 << 20, metadata()))) == "UPLOAD_SLOTS_FULL"
        other = replace(CALLER, merchant_id="somebody-else")
        assert (await uploads.create(other, Wish(100 << 20, metadata()))).received == 0
        uploads.close()

    async def test_a_merchant_has_as_many_unfinished_ones_as_slots(self, database, tmp_path):
        uploads = uploads_in(tmp_path, database, tus_slots_per_merchant=2)
        for _ in range(2):
            await uploads.create(CALLER, Wish(4, metadata()))
        assert await refused(uploads.create(CALLER, Wish(4, metadata()))) == "UPLOAD_SLOTS_FULL"
        await uploads.create(Caller("u-2", "m-2", Role.UPLOADER), Wish(4, metadata()))
        uploads.close()


class TestABodyThatEndsLate:
    """All bytes are here, and the end of the body comes later: a busy server may see it after a while."""

    async def test_the_upload_is_finished_and_nobody_is_told_that_it_is_locked(self, uploads, half):
        given = late(WHOLE[1000:], None)
        assert (await rest(uploads, half, given)).status == "FINISHED"

    async def test_more_than_was_announced_is_refused_all_the_same(self, uploads, half):
        assert await refused(rest(uploads, half, late(WHOLE[1000:], b"more"))) == "UPLOAD_LENGTH_EXCEEDED"
        assert uploads.path(half).read_bytes() == WHOLE


def late(first: bytes, then: bytes | None) -> Callable[[], Awaitable[bytes | None]]:
    """A body whose second piece takes longer than a writer waits before it lets others in."""
    left = [first, then, None]

    async def next_piece() -> bytes | None:
        if len(left) == 2:
            await asyncio.sleep(2 * IDLE_SECONDS)
        return left.pop(0)

    return next_piece


class TestTakingOver:
    async def test_who_is_fenced_off_while_it_copies_changes_nothing(
        self, uploads, database, half, database_url, monkeypatch
    ):
        copy = os.sendfile

        def overtaken(*arguments: int) -> int:
            with psycopg.connect(database_url) as connection:
                connection.execute("update tus_uploads set lease_token = lease_token + 1")
            return copy(*arguments)

        frozen = DataFile.open(uploads.path(half))
        assert frozen.try_lock()
        await suspected_long_ago(database, half)
        monkeypatch.setattr(os, "sendfile", overtaken)
        assert await refused(rest(uploads, half)) == "UPLOAD_LOCKED"
        assert frozen.is_current
        assert [file.name for file in uploads.directory.iterdir()] == [half]
        frozen.close()


class TestSweeping:
    async def test_old_files_that_no_upload_wants_go_and_no_others(self, uploads, database, half):
        whole = (await uploads.create(CALLER, Wish(4, metadata()))).upload_id
        await uploads.append(whole, "m-1", Chunk(0), body(b"abcd"))
        stray, young = "upl_aaaaaaaaaaaaaaaaaaaaa", "upl_bbbbbbbbbbbbbbbbbbbbb"
        for name in (stray, young, f"{stray}.new", "notes"):
            uploads.path(name).write_bytes(b"x")
        long_ago = time.time() - 4000
        for name in (half, whole, stray, f"{stray}.new", "notes"):
            os.utime(uploads.path(name), (long_ago, long_ago))
        assert await Expiry(database, uploads).sweep() == 2
        assert {file.name for file in uploads.directory.iterdir()} == {half, whole, young, "notes"}

    async def test_an_upload_that_went_on_after_all_does_not_expire(self, uploads, database, half):
        old = await uploads.find(half, "m-1")
        await uploads.append(half, "m-1", Chunk(1000), body(b"b"))
        with pytest.raises(PenstockError) as refusal:
            async with database.transaction() as tx:
                await store.expire(tx, old)
        assert refusal.value.code is error_codes.STATE_CHANGED
