"""Uploads that nobody goes on with are removed, hourly and by one instance: row first, bytes second.

Killed in between, the bytes of an ended upload stay; `sweep` finds files that no upload wants any more.
"""

import time
from datetime import timedelta
from pathlib import Path

import structlog

from penstock.kernel import error_codes
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.failpoints import reach
from penstock.kernel.scheduler import Fence
from penstock.uploads.tus import files, metrics, store
from penstock.uploads.tus.uploads import Uploads

log = structlog.get_logger(__name__)
_AT_ONCE = 500
_STRAY_SECONDS = 3600  # a younger file may belong to a request that has not recorded it yet
_REMEMBERED = timedelta(days=7)  # so long an ended upload answers "gone" rather than "not found"


class Expiry:
    """One round a call."""

    def __init__(self, database: Database, uploads: Uploads) -> None:
        self._database = database
        self._uploads = uploads

    async def run(self, fence: Fence) -> None:
        removed = 0
        while found := await self._expire_some(fence):
            removed += found
        async with self._database.transaction() as tx:
            await fence.hold(tx)
            await store.forget(tx, _REMEMBERED)
        strays = await self.sweep()
        log.info("uploads.expired", removed=removed, stray_files=strays)

    async def _expire_some(self, fence: Fence) -> int:
        ended = []
        async with self._database.transaction() as tx:
            await fence.hold(tx)
            for upload in await store.due(tx, _AT_ONCE):
                try:
                    await store.expire(tx, upload)
                except PenstockError as moved:
                    if moved.code is not error_codes.STATE_CHANGED:
                        raise
                else:
                    ended.append(upload)
        reach("upload.expired")
        for upload in ended:
            metrics.EXPIRED.inc()
            await self._uploads.discard(upload.upload_id)
        return len(ended)

    async def sweep(self) -> int:
        """Remove old files in the uploads directory that no upload wants."""
        names = await self._uploads.in_thread(_old_files, self._uploads.directory)
        strays = 0
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            async with self._database.statement() as tx:
                wanted = await store.with_data(tx, some)
            for name in set(some) - wanted:
                await self._uploads.in_thread(files.remove, self._uploads.directory / name)
                strays += 1
        return strays


def _old_files(directory: Path) -> list[str]:
    if not directory.is_dir():
        return []
    old = time.time() - _STRAY_SECONDS
    return [
        file.name
        for file in directory.iterdir()
        if file.name.startswith("upl_") and file.is_file() and file.stat().st_mtime < old
    ]
