"""What can be done with an upload: create, ask, append, join, cancel. The protocol's verbs without its HTTP.

`writing.py` tells how bytes come to count; this file decides who may send them.
"""

import asyncio
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.failpoints import reach
from penstock.kernel.fair_threads import FairThreads, finished
from penstock.kernel.groupcommit import GroupCommit
from penstock.kernel.identity import Caller
from penstock.kernel.turns import Turn, Turns
from penstock.uploads.tus import files, metrics, protocol, store
from penstock.uploads.tus.files import DataFile
from penstock.uploads.tus.protocol import Checksum
from penstock.uploads.tus.quota import Quota
from penstock.uploads.tus.settings import UploadSettings
from penstock.uploads.tus.states import UploadStatus
from penstock.uploads.tus.store import Upload
from penstock.uploads.tus.writing import Body, Desk, Writer, fenced_off, locked_soon

log = structlog.get_logger(__name__)
Result = TypeVar("Result")
_THREADS = 32
SECONDS_TO_END = 2.0  # for a body that can have no bytes any more: nobody's turn is held, but a connection is
_KEPT_AFTER_JOINING = timedelta(hours=1)
_JOINING = timedelta(hours=1)  # a reservation for a join that was killed ends after this
_JOINS = 2  # copying a large file takes a thread for long; the others must not wait for it


@dataclass(frozen=True, slots=True)
class Wish:
    """A new upload as the client asks for it. `length` None: it will say later."""

    length: int | None
    metadata: str = ""
    concat: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that a client wants to append. `size` is what it announced, if it did."""

    offset: int
    size: int | None = None
    length: int | None = None  # of the whole upload, if the client says it only now
    checksum: Checksum | None = None


class Uploads:
    """The uploads of all merchants, as seen from one process."""

    def __init__(self, database: Database, settings: UploadSettings, clock: Clock, name: str, home: Path) -> None:
        self.settings = settings
        self.directory = settings.tus_upload_dir or home / "uploads"
        self._database = database
        self._clock = clock
        self.turns = Turns(clock)
        threads = FairThreads(_THREADS, share=lambda whose: max(1, self.turns.most(whose) // 2), name="uploads")
        self._joins = FairThreads(_JOINS, share=lambda _: 1, name="joins")
        self._ledger = GroupCommit(database, turn=lambda statement: str(statement[1].get("merchant_id", "")))
        self._quota = Quota(database, settings, clock, self.directory)
        stopping = asyncio.get_running_loop().create_future()
        self._desk = Desk(database, self._ledger, self._quota, settings, clock, name, threads, stopping)

    async def prepare(self) -> None:
        """Make the directory. Ours is closed to other accounts; one that an operator has named is left as it is."""
        await self.in_thread(files.make_directory, self.directory, self.settings.tus_upload_dir is None)

    def interrupt(self) -> None:
        """Requests under way count what they have and end; clients come back to another instance, or later."""
        if not self._desk.stopping.done():
            self._desk.stopping.set_result(None)

    def close(self) -> None:
        self._desk.threads.close()
        self._joins.close()

    def path(self, upload_id: str) -> Path:
        return self.directory / upload_id

    async def in_thread(self, work: Callable[..., Result], *arguments: object, whose: str = "") -> Result:
        """Does blocking work in the merchant's turn; by default it is no merchant's in particular."""
        return await self._desk.in_thread(whose, work, *arguments)

    async def discard(self, upload_id: str) -> None:
        """Remove the bytes of an upload that has ended."""
        await self.in_thread(files.remove, self.path(upload_id))
        await self.in_thread(files.remove, files.beside(self.path(upload_id)))

    # ── create ───────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, caller: Caller, wish: Wish) -> Upload:
        async with self.turns.of(caller.merchant_id) as turn:
            return await self._create(caller, wish, turn)

    async def _create(self, caller: Caller, wish: Wish, turn: Turn) -> Upload:
        kind, parts = protocol.parse_concat(wish.concat)
        if kind == "final":
            turn.give()  # copying takes long, and has turns of its own
            return await self._join(caller, wish, parts)
        metadata = protocol.parse_metadata(wish.metadata)
        partial = kind == "partial"
        name = protocol.clean_name(metadata.get("filename", "")) if partial else protocol.file_name(metadata)
        self._quota.check_size(wish.length or 0)
        upload = self._new(caller, wish, name)
        await self._quota.begin(upload)
        if upload.length == 0:
            return await self._append((upload.upload_id, upload.merchant_id), Chunk(0, 0), _nothing, turn)
        return upload

    def _new(self, caller: Caller, wish: Wish, filename: str) -> Upload:
        now = self._clock.now()
        return Upload(
            upload_id=f"upl_{secrets.token_urlsafe(16)[:21]}",
            merchant_id=caller.merchant_id, created_by=caller.user_id, status=UploadStatus.UPLOADING,
            filename=filename, metadata=wish.metadata, concat=wish.concat or "", length=wish.length, received=0,
            reserved=store.charge(wish.length or 0), lease_owner=None, leased_until=None, lease_token=0, created_at=now,
            expires_at=now + self.settings.tus_expiry_hours, finished_at=None,
        )  # fmt: skip

    async def _join(self, caller: Caller, wish: Wish, part_ids: Sequence[str]) -> Upload:
        """A final upload is made of finished parts, whose bytes are copied in their order, once its row is there."""
        name = protocol.file_name(protocol.parse_metadata(wish.metadata))
        parts = await self._joinable(part_ids, caller.merchant_id)
        length = sum(part.received for part in parts)
        self._quota.check_size(length)
        upload = replace(
            self._new(caller, replace(wish, length=length), name), expires_at=self._clock.now() + _JOINING
        )  # fmt: skip
        await self._quota.begin(upload)
        reach("upload.join_reserved")
        try:
            return await self._joined(upload, parts)
        except BaseException:
            await finished(asyncio.ensure_future(self._give_up(upload, caller)))
            raise

    async def _joinable(self, part_ids: Sequence[str], merchant_id: str) -> list[Upload]:
        """UPLOAD_CONCAT_INVALID names the first that is none; also when it was removed while it was copied."""
        async with self._database.statement() as tx:
            found = await store.find_all(tx, part_ids)
        return [_joinable(found.get(part_id), part_id, merchant_id) for part_id in part_ids]

    async def _joined(self, upload: Upload, parts: Sequence[Upload]) -> Upload:
        sources = [(self.path(part.upload_id), part.received) for part in parts]
        copy = partial(files.join, sources, self.path(upload.upload_id), self.settings.tus_keep_free_bytes)
        try:
            await finished(self._joins.run(upload.merchant_id, copy))
        except PenstockError as failure:
            if failure.code is error_codes.STORE_UNAVAILABLE:
                await self._joinable([part.upload_id for part in parts], upload.merchant_id)
            raise
        reach("upload.joined")
        now, length = self._clock.now(), upload.length or 0
        async with self._database.transaction() as tx:
            query = store.finish_query(upload, length, now, now + self.settings.tus_finished_hours)
            whole = store.from_row(await fetch_one(tx, *query))
            if whole is None:
                raise PenstockError(error_codes.UPLOAD_GONE, upload_id=upload.upload_id)
            await store.expire_soon(tx, [part.upload_id for part in parts], now + _KEPT_AFTER_JOINING)
        return whole

    async def _give_up(self, upload: Upload, caller: Caller) -> None:
        """Cancels a join that failed. If that fails too, it expires; if the join was recorded after all, it stays."""
        with suppress(PenstockError):
            async with self._database.statement() as tx:
                await store.cancel(tx, upload, caller.user_id)
            await self.discard(upload.upload_id)

    async def take_in(self, caller: Caller, upload_id: str, filename: str, file: Path) -> None:
        """A whole file that came another way, synced and in our directory, is that upload from now on; again: too."""
        size = await self.in_thread(files.place, file, self.path(upload_id), whose=caller.merchant_id)
        reach("upload.placed")
        now, encoded = self._clock.now(), b64encode(filename.encode()).decode()
        upload = replace(
            self._new(caller, Wish(size, f"filename {encoded}"), filename), upload_id=upload_id,
            status=UploadStatus.FINISHED, received=size, finished_at=now,
            expires_at=now + self.settings.tus_finished_hours,
        )  # fmt: skip
        await self._quota.begin_placed(upload)

    # ── ask ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def find(self, upload_id: str, merchant_id: str) -> Upload:
        """UPLOAD_NOT_FOUND also for another merchant's; UPLOAD_GONE for one that has ended."""
        query, values = store.find_query(upload_id)
        upload = store.from_row(await self._ledger.run(query, {**values, "merchant_id": merchant_id}))
        return store.present(upload, upload_id, merchant_id)

    async def offset(self, upload_id: str, merchant_id: str) -> Upload:
        """How far it has come. A writer that is idle is given the moment it needs to count its bytes."""
        async with self.turns.of(merchant_id):
            return await self._offset(upload_id, merchant_id)

    async def _offset(self, upload_id: str, merchant_id: str) -> Upload:
        upload = await self.find(upload_id, merchant_id)
        if upload.status is not UploadStatus.UPLOADING or not self.path(upload_id).exists():
            return upload
        file = await self.in_thread(DataFile.open, self.path(upload_id), whose=merchant_id)
        try:
            if await locked_soon(file, self._clock):
                file.unlock()
        finally:
            file.close()
        return await self.find(upload_id, merchant_id)

    # ── append ───────────────────────────────────────────────────────────────────────────────────────────────

    async def append(self, upload_id: str, merchant_id: str, chunk: Chunk, body: Body) -> Upload:
        with metrics.ACTIVE.track_inprogress():
            async with self.turns.of(merchant_id) as turn:
                return await self._append((upload_id, merchant_id), chunk, body, turn)

    async def _append(self, which: tuple[str, str], chunk: Chunk, body: Body, turn: Turn) -> Upload:
        async with self._locked(*which) as (file, found):
            _check(found, chunk)
            if found.status is UploadStatus.UPLOADING:
                upload = await self._made_ours(found, chunk)
                await self._cut(file, upload)
                return await Writer(self._desk, file, upload, turn, chunk.checksum).take_in(body)
        turn.give()
        return await self._expect_nothing(found, body)

    async def _made_ours(self, upload: Upload, chunk: Chunk) -> Upload:
        """No earlier writer counts from here on. Only then the length is declared: one of them would not know it."""
        if upload.lease_owner is not None or upload.leased_until is not None:
            upload = await self._fence(upload)  # a parked one might come back; an old suspicion is not about us
        if chunk.length is not None and upload.length is None:
            upload = await self._declare(upload, chunk.length)
        return upload

    async def _expect_nothing(self, upload: Upload, body: Body) -> Upload:
        """The last request repeated: its answer got lost, the upload is whole. More bytes are refused."""
        try:
            async with asyncio.timeout(SECONDS_TO_END):
                while (piece := await body()) is not None:
                    if piece:
                        raise PenstockError(error_codes.UPLOAD_LENGTH_EXCEEDED, length=upload.length)
        except TimeoutError:
            raise PenstockError(error_codes.UPLOAD_STALLED, seconds=SECONDS_TO_END) from None
        return upload

    @asynccontextmanager
    async def _locked(self, upload_id: str, merchant_id: str) -> AsyncIterator[tuple[DataFile, Upload]]:
        """The data file, ours alone, and what PostgreSQL says of it since then."""
        file = await self._open(upload_id, merchant_id)
        wanted = False
        try:
            upload = await self.find(upload_id, merchant_id)
            wanted = upload.status is UploadStatus.UPLOADING
            yield file, upload
        finally:
            # Made a moment ago, for an upload that is not there or needs no bytes; unless whoever was first at the lock
            # has filled it and finished meanwhile.
            if file.new and not wanted and file.size == 0:
                await self.discard(upload_id)
            file.close()

    async def _open(self, upload_id: str, merchant_id: str) -> DataFile:
        file = await self.in_thread(DataFile.open, self.path(upload_id), whose=merchant_id)
        locked = False
        try:
            locked = await locked_soon(file, self._clock)
        finally:
            if not locked:
                file.close()
        if locked:
            return file
        return await self._take_over(await self.find(upload_id, merchant_id))

    async def _take_over(self, upload: Upload) -> DataFile:
        """From a writer that holds the lock: not while it shows life; see the top of writing.py."""
        patience = max(self.settings.tus_commit_sec * 3, timedelta(seconds=1))
        async with self._database.statement() as tx:
            if upload.status is not UploadStatus.UPLOADING or not await store.is_overdue(tx, upload):
                await store.suspect(tx, upload, patience)
                raise fenced_off(upload)
        path = self.path(upload.upload_id)
        copy = await self.in_thread(DataFile.open, files.beside(path), whose=upload.merchant_id)
        try:
            await self._move_to(copy, upload)
        except BaseException:
            copy.close()
            raise
        metrics.TAKEN_OVER.inc()
        log.warning("upload.taken_over", upload=upload.upload_id, offset=upload.received)
        return copy

    async def _move_to(self, copy: DataFile, upload: Upload) -> None:
        """The counted bytes go on in this file, unless somebody else became the writer while they were copied."""
        if not copy.try_lock():  # a large file takes its time, and somebody else is at it
            raise fenced_off(upload)
        path = self.path(upload.upload_id)
        try:
            upload = await self._fence(upload, self._desk.name)
            await self.in_thread(copy.copy_of, path, upload.received, whose=upload.merchant_id)
            reach("upload.copied")
            await self._desk.show_life(upload)
        except BaseException:
            await self.in_thread(files.remove, copy.path)
            raise
        await self.in_thread(copy.take_place, path)

    async def _fence(self, upload: Upload, owner: str | None = None) -> Upload:
        async with self._database.statement() as tx:
            fenced = await store.fence(tx, upload, owner)
        if fenced is None:
            raise fenced_off(upload)
        return fenced

    async def _cut(self, file: DataFile, upload: Upload) -> None:
        size = file.size
        if size < upload.received:  # another directory than the one it was written to
            reason = "the bytes of this upload are not in the uploads directory of this instance"
            raise PenstockError(error_codes.STORE_UNAVAILABLE, reason=reason, upload_id=upload.upload_id)
        if size > upload.received:
            await self.in_thread(file.cut, upload.received, whose=upload.merchant_id)

    async def _declare(self, upload: Upload, length: int) -> Upload:
        declared = await self._quota.declare(upload, length)
        if declared is None:
            raise fenced_off(upload)
        return declared

    # ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, upload_id: str, caller: Caller) -> None:
        """Its bytes go; a request that is still sending some is refused at its next count.

        The row is written first: no writer counts a byte after it. Then the file is emptied, since a writer that
        pauses may hold it open for a minute, and its blocks are no longer in the quota. writing.py has the reasoning.
        """
        upload = await self.find(upload_id, caller.merchant_id)
        if upload.status is UploadStatus.ADMITTED:
            raise PenstockError(error_codes.UPLOAD_ADMITTED, upload_id=upload_id, job_id=str(upload.job_id))
        async with self._database.statement() as tx:
            await store.cancel(tx, upload, caller.user_id)
        reach("upload.cancelled")
        if upload.status is UploadStatus.UPLOADING:  # a finished one may have a second name, in the object store
            for path in (self.path(upload_id), files.beside(self.path(upload_id))):
                await self.in_thread(files.empty, path, whose=upload.merchant_id)
        await self.discard(upload_id)


async def _nothing() -> None:
    return None


def _check(upload: Upload, chunk: Chunk) -> None:
    """Everything that can be refused before the body is read, and before anything is changed."""
    if upload.concat.startswith("final"):
        raise PenstockError(error_codes.UPLOAD_FINAL, upload_id=upload.upload_id)
    if chunk.offset != upload.received:
        raise PenstockError(error_codes.OFFSET_MISMATCH, offset=upload.received, sent=chunk.offset)
    length = upload.length
    if chunk.length is not None and chunk.length != length:
        if length is not None:
            raise protocol.invalid("Upload-Length", "was said before and cannot change")
        if chunk.length < upload.received:
            raise protocol.invalid("Upload-Length", "is less than what has arrived")
        length = chunk.length
    if length is not None and chunk.offset + (chunk.size or 0) > length:
        raise PenstockError(error_codes.UPLOAD_LENGTH_EXCEEDED, length=length)


def _joinable(part: Upload | None, upload_id: str, merchant_id: str) -> Upload:
    if part is None or part.merchant_id != merchant_id:
        raise PenstockError(error_codes.UPLOAD_CONCAT_INVALID, part=upload_id, reason="there is no such upload")
    if part.concat != "partial":
        raise PenstockError(error_codes.UPLOAD_CONCAT_INVALID, part=upload_id, reason="it is not a partial upload")
    if part.status in (UploadStatus.EXPIRED, UploadStatus.CANCELLED):
        raise PenstockError(error_codes.UPLOAD_CONCAT_INVALID, part=upload_id, reason="it was removed")
    if part.status is not UploadStatus.FINISHED:
        raise PenstockError(error_codes.UPLOAD_CONCAT_INVALID, part=upload_id, reason="it is not finished")
    return part
