"""Documents by upload are kept in the object store under their SHA-256, within a quota for each merchant.

The order is: SHA-256 → a row in `etl_content`, if the quota allows → the bytes. So no byte is stored that is not
counted, whatever becomes of the task. A merchant's uploads take their turn: of the same file sent many times at once
the first is written, and the others find it.

A row goes when no task of the merchant reads that document any more, the bytes with the last row of any merchant. Both
happen under a lock on the key, which whoever adds a row takes too: a document that is wanted again meanwhile is either
found with its row, or written anew.
"""

import asyncio
from pathlib import Path

from penstock.extraction import store
from penstock.extraction.desk import EtlDesk
from penstock.kernel import error_codes
from penstock.kernel.disk import sha256_of
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import ContentRef, content_key

_MiB = 1 << 20
_AT_ONCE = 100


async def keep(desk: EtlDesk, merchant_id: str, path: Path, size: int) -> ContentRef:
    """Places the file in the store; returns where. Raises ETL_STORED_QUOTA, DISK_FULL or FileNotFoundError."""
    async with desk.placing.turn(merchant_id):
        digest = await asyncio.to_thread(sha256_of, path)
        ref = ContentRef(digest, size, content_key(digest))
        await _count(desk, merchant_id, ref)
        if not await _is_there(desk, ref):
            await _check_room(desk, size)
        kept = await desk.store.put_content(path, sha256=digest)
    if kept != ref:
        raise FileNotFoundError(path)  # it was cut while we read it: nobody wants it any more
    return kept


async def _count(desk: EtlDesk, merchant_id: str, ref: ContentRef) -> None:
    quota = desk.settings.stored_mb_per_merchant * _MiB
    async with desk.database.statement() as tx:
        is_kept = await store.keep_content(tx, merchant_id, ref.key, ref.size, quota)
    if not is_kept:
        raise PenstockError(error_codes.ETL_STORED_QUOTA, size=ref.size, quota=quota)


async def _is_there(desk: EtlDesk, ref: ContentRef) -> bool:
    try:
        return (await desk.store.head(ref.key)).size == ref.size
    except PenstockError as missing:
        if missing.code is error_codes.NOT_FOUND:
            return False
        raise


async def _check_room(desk: EtlDesk, size: int) -> None:
    free, needed = await desk.store.free_bytes(), size + desk.keep_free
    if free is not None and free < needed:
        raise PenstockError(error_codes.DISK_FULL, free=free, needed=needed)


async def remove_unread(desk: EtlDesk) -> int:
    """Documents that no task reads any more, and that nobody has submitted for as long as tasks are known."""
    removed, after = 0, ("", "")
    while True:
        async with desk.database.statement() as tx:
            due = await store.unread_content(tx, desk.settings.tasks_days, after, _AT_ONCE)
        for merchant_id, key in due:
            async with desk.database.transaction() as tx:
                if await store.release_content(tx, merchant_id, key, desk.settings.tasks_days):
                    await desk.store.delete(key)  # before the row is gone: killed here, the next round repeats it
                    removed += 1
        if len(due) < _AT_ONCE:
            return removed
        after = due[-1]
