"""Reserves disk for a merchant's uploads before their bytes are written.

**The row is the reservation.** `tus_uploads.reserved` says how much disk an upload may take: its length, or, while the
client has not said one, a little more than what has arrived. It is written by the statement that begins the upload,
and ends with the row's open states; so a server killed between reserving and writing leaves an upload that expires.

**The sum of a merchant's rows** is kept beside them (`tus_quotas.held_bytes`), because adding up all finished uploads
at every small one would cost more than the upload. The function `tus_reserve` adds to it if the quota allows, under
that row's lock, so processes that reserve at the same time cannot pass the quota together. Nobody subtracts when an
upload ends (its job's transaction would hold the lock): `held_bytes` may be too large, never too small. When it stands
in the way, `recount` takes off what has ended, and the reservation is tried again.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.disk import free_bytes
from penstock.kernel.errors import PenstockError
from penstock.kernel.groupcommit import GroupCommit, Statement
from penstock.kernel.statemachine import Query
from penstock.kernel.together import Together
from penstock.uploads.tus import store
from penstock.uploads.tus.settings import UploadSettings
from penstock.uploads.tus.store import Upload

_LEAST_AHEAD, _MOST_AHEAD = 1 << 20, 64 << 20
_UNLIMITED = 1 << 62
_RECOUNTED_AT_ONCE = 16
_SHARE_OF_TIME = 10  # a merchant at its quota who keeps asking takes this part of one connection's time
_LONGEST_REST = 2.0


def _merchant(statement: Statement) -> str:
    return str(statement[1]["merchant_id"])


class Quota:
    """The disk that uploads may take, as one process sees it."""

    def __init__(self, database: Database, settings: UploadSettings, clock: Clock, directory: Path) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._directory = directory
        # Sorted: each statement locks its merchant's sum, and two processes must not wait for each other.
        self._beginning = GroupCommit(database, order=_merchant, turn=_merchant)
        self._recounts: Together[str, None] = Together(self._recount_each, most=_RECOUNTED_AT_ONCE)
        self._rested_at = float("-inf")
        self._free = (0, float("-inf"))  # bytes, and when that was

    def check_size(self, length: int) -> None:
        """Raises FILE_SIZE_EXCEEDED or DISK_FULL for what could never be written."""
        if length > self._settings.largest:
            raise PenstockError(error_codes.FILE_SIZE_EXCEEDED, limit_bytes=self._settings.largest)
        free, needed = self._free_bytes(), length + self._settings.tus_keep_free_bytes
        if free < needed:
            raise PenstockError(error_codes.DISK_FULL, free_bytes=free, needed_bytes=int(needed))

    async def begin(self, upload: Upload) -> None:
        """Records a new upload with its reservation; UPLOAD_SLOTS_FULL when the merchant has too many, or too much."""
        slots = self._settings.tus_slots_per_merchant
        for is_last in (False, True):
            query = store.begin_query(upload, slots=slots, quota=self._limit())
            if await self._beginning.run(*query) is not None:
                return
            async with self._database.statement() as tx:
                unfinished = await store.unfinished(tx, upload.merchant_id)
            if unfinished >= slots:
                raise PenstockError(error_codes.UPLOAD_SLOTS_FULL, slots=slots, retry_after=60)
            if not is_last:
                await self._recounts.ask(upload.merchant_id)
        raise await self._full(upload.merchant_id)

    async def begin_placed(self, upload: Upload) -> None:
        """Records an upload whose bytes are on disk already: it counts, and is not refused."""
        await self._beginning.run(*store.begin_query(upload, slots=_UNLIMITED, quota=_UNLIMITED))

    async def declare(self, upload: Upload, length: int) -> Upload | None:
        """Reserves the length that the client has just said; None when this writer has been fenced off."""
        self.check_size(length)
        return await self._reserve(upload, [store.charge(length)], length)

    async def extend(self, upload: Upload, arrived: int) -> Upload | None:
        """Reserves for an upload without a length that so many bytes have arrived of; None when fenced off.

        Some more is reserved ahead where there is room, so that a fast sender costs a statement every 64 MiB.
        """
        ahead = min(max(arrived, _LEAST_AHEAD), _MOST_AHEAD)
        return await self._reserve(upload, [min(arrived + ahead, self._settings.largest), arrived])

    async def _reserve(self, upload: Upload, wanted: Sequence[int], length: int | None = None) -> Upload | None:
        """The first of these that the quota allows; the last is tried again after a recount."""
        for number, size in enumerate([*wanted, wanted[-1]]):
            if number == len(wanted):
                await self._recounts.ask(upload.merchant_id)
            reserved = await self._run(store.reserve_query(upload, size, quota=self._limit(), length=length))
            if reserved is not None:
                return reserved
        async with self._database.statement() as tx:
            now = await store.find(tx, upload.upload_id)
        if now is None or now.lease_token != upload.lease_token or now.reserved != upload.reserved:
            return None
        raise await self._full(upload.merchant_id)

    async def _run(self, query: Query) -> Upload | None:
        async with self._database.statement() as tx:
            return store.from_row(await (await tx.execute(*query)).fetchone())

    async def _full(self, merchant_id: str) -> PenstockError:
        async with self._database.statement() as tx:
            held = await store.held_bytes(tx, merchant_id)
        return PenstockError(
            error_codes.UPLOAD_SLOTS_FULL, held_bytes=held, limit_bytes=self._limit(), retry_after=60
        )  # fmt: skip

    async def _recount_each(self, merchants: Sequence[str]) -> Sequence[None]:
        """One merchant after the other, and not all the time: adding up many uploads is dear."""
        await asyncio.sleep(max(0.0, self._rested_at - self._clock.monotonic()))
        began = self._clock.monotonic()
        for merchant_id in sorted(set(merchants)):
            async with self._database.statement() as tx:
                await store.recount(tx, merchant_id)
        now = self._clock.monotonic()
        self._rested_at = now + min((now - began) * _SHARE_OF_TIME, _LONGEST_REST)
        return [None] * len(merchants)

    def _limit(self) -> int:
        share = self._free_bytes() * self._settings.tus_free_space_percent // 100
        return min(int(self._settings.tus_bytes_per_merchant), share)

    def _free_bytes(self) -> int:
        """As of a second ago at the most: asking the disk for every small upload would cost more than the upload."""
        now = self._clock.monotonic()
        if now - self._free[1] > 1.0:
            self._free = (free_bytes(self._directory), now)
        return self._free[0]
