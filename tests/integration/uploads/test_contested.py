"""Writers of one upload in the moments between two lines: suspected, taken over, parked, late."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.tus import checksum, metadata
from tests.support.uploads import CALLER, WHOLE, body, refused, rest, row, suspected_long_ago

from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, fetch_one
from penstock.uploads.tus import Chunk, Upload, Uploads, Wish, parse_checksum, store
from penstock.uploads.tus import uploads as tus_uploads
from penstock.uploads.tus.files import DataFile


class TestAFrozenWriter:
    @pytest.fixture
    def frozen(self, uploads: Uploads, half: str):
        """Somebody who has the lock and does nothing."""
        file = DataFile.open(uploads.path(half))
        assert file.try_lock()
        yield file
        file.close()

    async def test_its_file_loses_its_name_to_a_copy(self, uploads, database, half, frozen):
        await suspected_long_ago(database, half)
        assert (await rest(uploads, half)).received == 2000
        frozen.write([b"z" * 1000], 500)
        assert uploads.path(half).read_bytes() == WHOLE
        assert not frozen.is_current
        assert [file.name for file in uploads.directory.iterdir()] == [half]

    async def test_it_is_left_alone_until_it_had_time_to_show_life(self, uploads, database, half, frozen):
        assert await refused(rest(uploads, half)) == "UPLOAD_LOCKED"
        found = await row(database, half)
        assert found["leased_until"] is not None
        assert found["lease_token"] == 0
        assert frozen.is_current

    async def test_while_one_copies_its_file_nobody_else_does(self, uploads, database, half, frozen):
        await suspected_long_ago(database, half)
        copy = DataFile.open(uploads.path(f"{half}.new"))
        assert copy.try_lock()
        copy.write([b"half a copy"], 0)
        assert await refused(rest(uploads, half)) == "UPLOAD_LOCKED"
        assert uploads.path(f"{half}.new").read_bytes() == b"half a copy"
        assert (await row(database, half))["lease_token"] == 0
        copy.close()  # killed: what it left is made anew
        assert (await rest(uploads, half)).received == 2000
        assert uploads.path(half).read_bytes() == WHOLE


class TestAParkedWriter:
    async def test_it_goes_on_though_somebody_looks_at_the_file_just_then(self, uploads, database, half):
        """As one does, in another process, who asks for the offset or is refused."""
        arrived = asyncio.Event()
        pieces = [WHOLE[1000:]]

        async def late() -> bytes | None:
            await arrived.wait()
            return pieces.pop() if pieces else None

        writer = asyncio.create_task(rest(uploads, half, late))
        looker = DataFile.open(uploads.path(half))
        await until(lambda: is_parked(database, half))
        await until(lambda: is_locked(looker))
        arrived.set()
        await asyncio.sleep(0.05)  # this is how long it looks
        looker.close()
        assert (await writer).received == 2000


class TestAnUploadThatIsCancelled:
    @pytest.fixture
    async def waiting(self, uploads, database, half):
        """A request that has its file open and waits for bytes, and a way to let them come."""
        arrived, pieces = asyncio.Event(), [WHOLE[1000:]]

        async def late() -> bytes | None:
            await arrived.wait()
            return pieces.pop() if pieces else None

        writer = asyncio.create_task(rest(uploads, half, late))
        await until(lambda: is_parked(database, half))
        yield writer, arrived
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)

    async def test_it_gives_back_its_disk_while_a_writer_waits(self, uploads, half, waiting):
        looker = DataFile.open(uploads.path(half))
        assert looker.size == 1000
        await uploads.cancel(half, CALLER)
        assert not uploads.path(half).exists()
        assert looker.size == 0
        looker.close()

    async def test_late_bytes_of_that_writer_are_refused_and_written_nowhere(self, uploads, half, waiting):
        writer, arrived = waiting
        looker = DataFile.open(uploads.path(half))
        await uploads.cancel(half, CALLER)
        arrived.set()
        assert await refused(writer) == "UPLOAD_LOCKED"
        assert looker.size == 0
        assert list(uploads.directory.iterdir()) == []
        looker.close()

    async def test_a_second_name_of_a_finished_one_keeps_its_bytes(self, uploads, half, tmp_path):
        await rest(uploads, half)
        os.link(uploads.path(half), tmp_path / "in-the-store")
        await uploads.cancel(half, CALLER)
        assert (tmp_path / "in-the-store").read_bytes() == WHOLE

    async def test_a_finished_one_is_held_open_by_nobody(self, uploads, database, half):
        pieces, over = [WHOLE[1000:]], asyncio.Event()

        async def endless() -> bytes | None:
            if pieces:
                return pieces.pop()
            await over.wait()
            return None

        async def is_finished() -> bool:
            return bool((await row(database, half))["status"] == "FINISHED")

        writer = asyncio.create_task(rest(uploads, half, endless))
        await until(is_finished)
        await until(lambda: is_closed(uploads.path(half)))
        over.set()
        assert (await writer).received == 2000


def _opened() -> set[str]:
    return {os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()}


async def is_closed(path: Path) -> bool:
    """Nobody in this process has it open."""
    return os.fspath(path) not in _opened()


class _Outrun(Uploads):
    """Between making the file and asking for its lock it loses time, in which `first` does all there is to do."""

    first: Callable[[], Awaitable[Any]] | None = None

    async def in_thread(self, work: Callable[..., Any], *arguments: object, **more: Any) -> Any:
        done = await super().in_thread(work, *arguments, **more)
        if work == DataFile.open and self.first is not None:
            first, self.first = self.first, None
            await first()
        return done


class TestAWriterThatWasOutrun:
    async def test_the_file_that_it_made_and_another_filled_stays(self, uploads, database, tmp_path):
        upload_id = (await uploads.create(CALLER, Wish(2000, metadata()))).upload_id
        late = _Outrun(database, uploads.settings, SystemClock(), "late", tmp_path)
        late.first = lambda: uploads.append(upload_id, "m-1", Chunk(0, 2000), body(WHOLE))
        assert await refused(late.append(upload_id, "m-1", Chunk(0, 2000), body(WHOLE))) == "OFFSET_MISMATCH"
        late.close()
        assert (await row(database, upload_id))["status"] == "FINISHED"
        assert uploads.path(upload_id).read_bytes() == WHOLE


class TestAWriterThatWasFencedOff:
    """Its token is old: whatever it still says of the offset is not heard."""

    @pytest.mark.parametrize("received", [1500, 2000], ids=["further", "to the end"])
    async def test_it_moves_no_offset(self, uploads, database, half, received):
        old = await uploads.find(half, "m-1")
        async with database.transaction() as tx:
            assert await store.fence(tx, old) is not None
        assert await counted(database, old, received) is None
        now = await row(database, half)
        assert (now["received"], now["status"]) == (1000, "UPLOADING")

    @pytest.mark.parametrize("received", [1500, 2000], ids=["further", "to the end"])
    async def test_nor_does_one_that_has_not_heard_of_the_last_move(self, uploads, database, half, received):
        old = replace(await uploads.find(half, "m-1"), received=900)
        assert await counted(database, old, received) is None
        assert (await row(database, half))["received"] == 1000

    async def test_it_cannot_pause_or_show_life_either(self, uploads, database, half):
        old = await uploads.find(half, "m-1")
        async with database.transaction() as tx:
            new = await store.fence(tx, old)
            assert new is not None
            assert await store.stay(tx, old, "old") is None
            assert await store.fence(tx, old) is None
            assert not await store.show_life(tx, old, old.expires_at)
            staying = await store.stay(tx, new, "new")
            assert staying is not None
            assert staying.lease_token > new.lease_token


async def counted(database: Database, upload: Upload, received: int) -> dict[str, Any] | None:
    """What the writer does after each sync."""
    if received == upload.length:
        query = store.finish_query(upload, received, upload.created_at, upload.expires_at)
    else:
        query = store.advance_query(upload, received, upload.expires_at)
    async with database.transaction() as tx:
        return await fetch_one(tx, *query)


class TestANewFile:
    async def test_its_name_is_synced_also_when_somebody_else_made_it_and_left(self, uploads, monkeypatch):
        upload = await uploads.create(CALLER, Wish(2000, metadata()))
        assert await refused(uploads.append(upload.upload_id, "m-1", Chunk(7), body())) == "OFFSET_MISMATCH"
        assert uploads.path(upload.upload_id).exists()
        synced: list[Path] = []
        sync = os.fsync

        def noted(descriptor: int) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", noted)
        await uploads.append(upload.upload_id, "m-1", Chunk(0), body(WHOLE[:1000]))
        assert synced == [uploads.directory]


class TestALiveWriter:
    async def test_an_old_suspicion_of_another_does_not_touch_it(self, uploads, database, half):
        await suspected_long_ago(database, half)
        async with writing(uploads, half) as writer:
            assert await refused(rest(uploads, half)) == "UPLOAD_LOCKED"
        assert (await writer).received == 2000

    async def test_it_counts_nothing_once_its_file_has_lost_its_name(self, uploads, database, half):
        async with writing(uploads, half) as writer:
            another = uploads.path("another")
            shutil.copy(uploads.path(half), another)
            another.replace(uploads.path(half))
        assert await refused(writer) == "UPLOAD_LOCKED"
        assert (await row(database, half))["received"] == 1000

    async def test_with_a_checksum_owed_its_upload_does_not_expire_either(self, hasty, database, half):
        async with database.transaction() as tx:
            await tx.execute("update tus_uploads set expires_at = now() + interval '10 s'")
        soon = (await row(database, half))["expires_at"]
        async with writing(hasty, half, parse_checksum(checksum(WHOLE[1000:]))) as writer:
            await until(lambda: later(database, half, soon))
        assert (await writer).received == 2000


async def is_parked(database: Database, upload_id: str) -> bool:
    return (await row(database, upload_id))["lease_owner"] is not None


async def is_locked(file: DataFile) -> bool:
    return file.try_lock()


async def later(database: Database, upload_id: str, than: datetime) -> bool:
    return bool((await row(database, upload_id))["expires_at"] > than)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await is_so():
            await asyncio.sleep(0.02)


class writing:  # noqa: N801  reads as what it is: a request under way
    """A request that is sending while the block runs, and ends well after it if it may."""

    def __init__(self, uploads: Uploads, upload_id: str, owed: Any = None) -> None:
        self._over = asyncio.Event()
        self._begun = asyncio.Event()
        self._left = list(WHOLE[1000:])
        self._task = asyncio.create_task(rest(uploads, upload_id, self._next_piece, owed))

    async def _next_piece(self) -> bytes | None:
        self._begun.set()
        if self._over.is_set():
            rest_of_it, self._left = bytes(self._left), []
            return rest_of_it or None
        await asyncio.sleep(0.01)  # busy: it neither ends nor parks
        return bytes([self._left.pop(0)])

    async def __aenter__(self) -> "asyncio.Task[Any]":
        await asyncio.wait_for(self._begun.wait(), 10)
        return self._task

    async def __aexit__(self, *_: object) -> None:
        self._over.set()


class TestTheLastRequestRepeated:
    async def test_a_body_that_does_not_end_holds_it_for_a_moment_only(self, uploads, half, monkeypatch):
        monkeypatch.setattr(tus_uploads, "SECONDS_TO_END", 0.1)
        await rest(uploads, half)
        async with asyncio.timeout(3):
            assert await refused(uploads.append(half, "m-1", Chunk(2000), asyncio.Event().wait)) == "UPLOAD_STALLED"
