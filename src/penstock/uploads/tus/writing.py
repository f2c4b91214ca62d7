"""The write path: bytes of one request go to disk, and the offset follows them, never the other way round.

**What is promised.** The offset in PostgreSQL (`received`) never counts a byte that is not on disk, synced, at its
place, and covered by the checksum if one was sent. A process killed at any line leaves an upload that goes on from
there. One writer at a time, over all processes that see the directory. Memory does not grow with the upload.

**The order of a request.** Lock the data file (the operating system's lock, without waiting) → read the row → check
everything that can be checked before the body → cut the file to the offset, which removes what a dead writer left
beyond it → write at explicit positions → fdatasync → compare-and-set of the offset (`where received = what I saw and
lease_token = mine`) → answer. A long request does the last three every 64 MiB or 5 s, unless it owes a checksum.
If the connection drops, what arrived is synced and counted; with a checksum owed it is not, as nobody checked it.

**A client that comes back** while its old connection still hangs finds the file locked. An idle writer therefore
*parks*: after 100 ms without bytes it syncs, counts and lets go of the lock. So the newcomer waits a moment at most,
and no message between processes is needed. Before it lets go for the first time the parked writer puts its name and a
new token into the row (`stay`); whoever writes next sees the name and raises the token (`fence`). When bytes arrive
after all, the parked writer takes the lock again and looks at the token: is it still its own, it goes on; if not,
somebody else is writing, and it stops. A writer that is busy is not disturbed: the newcomer gets UPLOAD_LOCKED.

**A writer that neither works nor parks** (its process is stopped, its disk hangs) keeps the lock. Newcomers note a
deadline in the row (`suspect`), which every living writer clears every few seconds. After the deadline the newcomer
raises the token and copies the counted bytes into a new file that takes the old one's place (`take_over`): whatever
the old writer still writes goes into a file without a name, and its token no longer moves the offset. The copy is
locked from its first byte on, so that a second newcomer does not make another; and a writer looks whether its file
still has its name before it counts.

**An upload that is cancelled** gives back its disk at once, whoever still holds its file open. The row comes first:
after it no token counts, and a parked writer that takes the lock again finds its file without a name and writes
nothing. Then the file is emptied and its name removed. One that writes at this very moment fills a file without a name
until its next count, seconds later. A finished upload has no writer: it closes the file before it waits for the end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.failpoints import reach
from penstock.kernel.fair_threads import FairThreads, finished
from penstock.kernel.groupcommit import GroupCommit
from penstock.kernel.turns import Turn
from penstock.uploads.tus import metrics, store
from penstock.uploads.tus.files import DataFile
from penstock.uploads.tus.protocol import Checksum
from penstock.uploads.tus.quota import Quota
from penstock.uploads.tus.settings import UploadSettings
from penstock.uploads.tus.states import UploadStatus
from penstock.uploads.tus.store import Upload

log = structlog.get_logger(__name__)
Result = TypeVar("Result")
# The next bytes of a body; None at its end. Raises ClientGone when the rest will not come.
Body = Callable[[], Awaitable[bytes | None]]

_PATIENCE_SECONDS = 0.25  # for a lock: longer than an idle writer takes to let go
_LOOK_SECONDS = 0.01
IDLE_SECONDS = 0.1  # a writer without bytes for so long lets others in
_IN_TURN_SECONDS = 0.001  # that a request waits for its client without giving its turn to another
_RESYNC_SECONDS = 1.0  # a slow client's trickle is synced no more often than this
_GATHERED = 1 << 20  # bytes that go to disk in one piece
_GATHERED_PIECES = 4096  # pieces of a byte or two weigh many times what they carry


class ClientGone(Exception):
    """The connection ended before the body did."""


@dataclass(frozen=True)
class Desk:
    """What every writer of a process shares."""

    database: Database
    ledger: GroupCommit  # offsets of many uploads are counted in one commit
    quota: Quota
    settings: UploadSettings
    clock: Clock
    name: str
    threads: FairThreads  # disks make us wait; the event loop must not
    stopping: "asyncio.Future[None]"

    async def in_thread(self, merchant_id: str, work: Callable[..., Result], *arguments: object) -> Result:
        return await finished(self.threads.run(merchant_id, work, *arguments))

    async def record(self, upload: Upload, received: int) -> Upload:
        """Move the offset, to the end if that is where it is; UPLOAD_LOCKED if that is not ours to do any more."""
        now = self.clock.now()
        if received == upload.length:
            query = store.finish_query(upload, received, now, now + self.settings.tus_finished_hours)
        else:
            query = store.advance_query(upload, received, now + self.settings.tus_expiry_hours)
        moved = store.from_row(await self.ledger.run(*query))
        if moved is None:
            raise fenced_off(upload)
        return moved

    async def show_life(self, upload: Upload) -> None:
        """Who writes and cannot count yet is not frozen; UPLOAD_LOCKED if it is not the writer any more."""
        async with self.database.statement() as tx:
            if not await store.show_life(tx, upload, self.clock.now() + self.settings.tus_expiry_hours):
                raise fenced_off(upload)


async def locked_soon(file: DataFile, clock: Clock) -> bool:
    deadline = clock.monotonic() + _PATIENCE_SECONDS
    while not file.try_lock():
        if clock.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


def fenced_off(upload: Upload) -> PenstockError:
    return PenstockError(error_codes.UPLOAD_LOCKED, upload_id=upload.upload_id, retry_after=1)


def _stopping() -> PenstockError:
    return PenstockError(error_codes.SERVICE_UNAVAILABLE, reason="the server is stopping", retry_after=1)


class Writer:
    """One request's bytes on their way into one locked data file."""

    def __init__(self, desk: Desk, file: DataFile, upload: Upload, turn: Turn, checksum: Checksum | None) -> None:
        self._desk = desk
        self._turn = turn
        self._file = file
        self._file.new |= upload.received == 0  # whoever made it may have left before its name was synced
        self._upload = upload
        self._checksum = checksum
        self._position = upload.received  # where the next byte goes
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._writing: asyncio.Future[None] | None = None
        self._recorded_at = desk.clock.monotonic()
        self._stays = False  # others know that we may come back from a pause
        self._disk_failed = False  # what is beyond the counted offset may be full of holes

    async def take_in(self, body: Body) -> Upload:
        """Until the body ends. Whatever arrived before trouble counts, unless a checksum is owed."""
        try:
            while (piece := await self._next(body)) is not None:
                await self._gather(piece)
                self._heed_the_end()
            return await self._end()
        except (PenstockError, ClientGone, asyncio.CancelledError):
            if self._checksum is None and not self._disk_failed:
                await self._keep()
            raise
        finally:
            await self._flushed()

    async def _gather(self, piece: bytes) -> None:
        if not piece:
            return
        arrived = self._position + self._gathered_bytes + len(piece)
        limit = self._upload.length if self._upload.length is not None else self._desk.settings.largest
        if arrived > limit:
            raise PenstockError(error_codes.UPLOAD_LENGTH_EXCEEDED, length=limit)
        if arrived > self._upload.reserved and self._upload.length is None:
            await self._reserve(arrived)
        self._gathered.append(piece)
        self._gathered_bytes += len(piece)
        metrics.BYTES.inc(len(piece))
        if self._gathered_bytes >= _GATHERED or len(self._gathered) >= _GATHERED_PIECES:
            await self._write()
        await self._record_if_due()  # also when little came: a trickle is counted as often as a flood

    async def _reserve(self, arrived: int) -> None:
        """For an upload whose length nobody has said: disk is reserved as it grows."""
        reserved = await self._desk.quota.extend(self._upload, arrived)
        if reserved is None:
            raise fenced_off(self._upload)
        self._upload = reserved

    # ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _write(self) -> None:
        """Hand what is gathered to the disk; one piece is under way while the next is gathered."""
        await self._flushed()
        self._writing = self._desk.threads.run(self._upload.merchant_id, self._write_now, *self._handed_over())
        self._turn.give()
        await self._turn.take()  # a fast client does not keep the merchant's others waiting

    def _handed_over(self) -> tuple[list[bytes], int]:
        buffers, position = self._gathered, self._position
        self._gathered, self._gathered_bytes, self._position = [], 0, position + self._gathered_bytes
        return buffers, position

    async def _flushed(self) -> None:
        """No write is under way when this returns."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await finished(writing)

    def _write_now(self, buffers: list[bytes], position: int, *, sync: bool = False) -> None:
        """In a thread. After a failure nothing more counts: a disk that failed to sync once may claim success later."""
        try:
            if buffers:
                self._file.write(buffers, position, self._desk.settings.tus_keep_free_bytes)
            if self._checksum is not None:
                self._checksum.update(buffers)
            reach("upload.written")
            if sync and (self._checksum is None or self._checksum.matches):
                self._sync_file()
        except BaseException:
            self._disk_failed = True
            raise

    def _sync_file(self) -> None:
        self._file.sync()
        if not self._file.is_current:  # cancelled, or taken over
            raise fenced_off(self._upload)

    async def _sync(self) -> None:
        """Everything that arrived is on disk when this returns, unless its checksum is wrong."""
        await self._flushed()
        write = partial(self._write_now, *self._handed_over(), sync=True)
        await self._desk.in_thread(self._upload.merchant_id, write)

    # ── the offset ───────────────────────────────────────────────────────────────────────────────────────────

    async def _record(self) -> None:
        """Sync, then count."""
        if self._position + self._gathered_bytes > self._upload.received:
            await self._sync()
            reach("upload.synced")
            self._upload = await self._desk.record(self._upload, self._position)
            reach("upload.recorded")
        self._recorded_at = self._desk.clock.monotonic()

    async def _record_if_due(self) -> None:
        settings = self._desk.settings
        since = self._desk.clock.monotonic() - self._recorded_at
        late = since >= settings.tus_commit_sec.total_seconds()
        if self._checksum is not None:
            if late:
                await self._show_life()
        elif late or self._position - self._upload.received >= settings.tus_commit_bytes:
            await self._record()

    async def _show_life(self) -> None:
        await self._desk.show_life(self._upload)
        self._recorded_at = self._desk.clock.monotonic()

    async def _end(self) -> Upload:
        if self._checksum is not None:
            await self._sync()
            if not self._checksum.matches:
                await self._desk.in_thread(self._upload.merchant_id, self._file.cut, self._upload.received)
                raise PenstockError(error_codes.CHECKSUM_FAILED, algorithm=self._checksum.algorithm)
        if self._position + self._gathered_bytes > self._upload.received:
            await self._record()
        elif self._upload.is_complete and self._upload.status is UploadStatus.UPLOADING:
            await self._sync()  # the length was declared after all bytes had come, or is 0
            self._upload = await self._desk.record(self._upload, self._position)
        return self._upload

    async def _keep(self) -> None:
        """After trouble: count what arrived, if we may. Runs to its end even when the request is cut off."""
        try:
            await finished(asyncio.ensure_future(self._record()))
        except PenstockError as failure:
            log.info("upload.not_kept", upload=self._upload.upload_id, reason=str(failure))

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _next(self, body: Body) -> bytes | None:
        """The next bytes. While none come, others are let in. `body` is not cancelled to wait: it might hold bytes.

        They are asked for in turn: bytes that nobody asks for stay in the connection and cost the event loop nothing.
        """
        coming = asyncio.ensure_future(body())
        if await _done_soon(coming, _IN_TURN_SECONDS):
            return coming.result()
        self._turn.give()
        if not await _done_soon(coming, IDLE_SECONDS) and not await self._came(coming, 0):
            coming.add_done_callback(_heard)  # if we are fenced off meanwhile, nobody asks for its outcome
            is_all_here = self._position + self._gathered_bytes == self._upload.length and self._checksum is None
            await (self._wait_for_the_end(coming) if is_all_here else self._wait_parked(coming))
        piece = coming.result()
        await self._turn.take()
        return piece

    async def _came(self, coming: "asyncio.Future[bytes | None]", seconds: float) -> bool:
        stopping = self._desk.stopping
        waited: set[asyncio.Future[Any]] = {coming, stopping}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done() and not coming.done():
            coming.cancel()
            raise _stopping()
        return coming.done()

    def _heed_the_end(self) -> None:
        """Who keeps sending is told to stop too, unless all is here, or what came would not count for its checksum."""
        is_all_here = self._position + self._gathered_bytes == self._upload.length
        if self._desk.stopping.done() and self._checksum is None and not is_all_here:
            raise _stopping()

    async def _wait_for_the_end(self, coming: "asyncio.Future[bytes | None]") -> None:
        """All bytes are here, and the upload is finished: there is nothing to come back to."""
        patience = self._desk.settings.tus_chunk_timeout_sec.total_seconds()
        await self._record()
        if self._upload.status is UploadStatus.FINISHED:
            self._file.close()  # nothing more is written, and whoever removes the upload gets its blocks back
        else:
            self._file.unlock()
        if not await self._came(coming, patience):
            coming.cancel()
            raise PenstockError(error_codes.UPLOAD_STALLED, seconds=patience)

    async def _wait_parked(self, coming: "asyncio.Future[bytes | None]") -> None:
        patience = self._desk.settings.tus_chunk_timeout_sec.total_seconds()
        await self._park()
        try:
            if not await self._came(coming, _RESYNC_SECONDS):
                await self._resync()
                if not await self._came(coming, max(0.0, patience - _RESYNC_SECONDS)):
                    coming.cancel()
                    raise PenstockError(error_codes.UPLOAD_STALLED, seconds=patience)
        finally:
            await self._unpark()

    async def _park(self) -> None:
        if not self._stays:
            if self._checksum is None:
                await self._record()
            async with self._desk.database.statement() as tx:
                staying = await store.stay(tx, self._upload, self._desk.name)
            if staying is None:
                raise fenced_off(self._upload)
            self._upload, self._stays = staying, True
        elif self._desk.clock.monotonic() - self._recorded_at >= _RESYNC_SECONDS:
            await self._resync()
        if self._gathered:  # while parked, nothing may be written
            await self._write()
        await self._flushed()
        self._file.unlock()

    async def _resync(self) -> None:
        if self._checksum is None:
            await self._record()

    async def _unpark(self) -> None:
        if await locked_soon(self._file, self._desk.clock):  # somebody who only asks has it for a moment
            async with self._desk.database.statement() as tx:
                now = await store.find(tx, self._upload.upload_id)
            if now is not None and now.lease_token == self._upload.lease_token:
                return
        raise fenced_off(self._upload)


async def _done_soon(coming: "asyncio.Future[bytes | None]", seconds: float) -> bool:
    """As asyncio.wait, at a third of its price: this is done for every piece of every upload."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    coming.add_done_callback(wake)
    timer = loop.call_later(seconds, wake)
    try:
        await woken
    finally:
        timer.cancel()
        coming.remove_done_callback(wake)
    return coming.done()


def _heard(coming: "asyncio.Future[bytes | None]") -> None:
    if not coming.cancelled():
        coming.exception()
