"""An object that is not what was announced is kept for people to look at, under a name where nobody finds it.

It may lie in a bucket that was in use before. If that can still be reached it is moved there; if not, it stays where it
is and operators are told: nothing counts as moved that nobody has seen.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from penstock.kernel import error_codes, failpoints
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct import metrics, store
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.direct.settings import ASIDE

log = structlog.get_logger(__name__)


async def move_aside(desk: DirectDesk, row: Mapping[str, Any]) -> None:
    """Moves it and notes where; a repeat, by us or beside us, ends the same."""
    upload_id, generation = row["upload_id"], row["aside_generation"]
    name = f"{ASIDE}/{upload_id}/{generation}"
    bucket = desk.bucket_of(row["bucket"])
    if bucket is not desk.bucket and await bucket.find(name) is None:
        await must_be_there(bucket, row["object_name"], generation)
    await bucket.move_aside(row["object_name"], generation, name)
    failpoints.reach("direct.moved_aside")
    async with desk.database.transaction() as tx:
        await store.note_aside(tx, upload_id, generation, name)
    log.warning("direct.object_moved_aside", upload=str(upload_id), generation=generation)


async def clear_the_way(desk: DirectDesk, row: Mapping[str, Any]) -> None:
    """Before the name is used again. What lies in a bucket that nobody can reach any more is in nobody's way."""
    try:
        await move_aside(desk, row)
    except PenstockError as away:
        if not desk.is_lost(row["bucket"], away):
            raise
        await _leave_behind(desk, row)


async def must_be_there(bucket: Bucket, object_name: str, generation: str) -> None:
    """Of a bucket that was in use before, "not found" may be said of the bucket itself: no verdict rests on it."""
    found = await bucket.find(object_name)
    if found is None or found.generation != generation:
        raise PenstockError(error_codes.STORE_UNAVAILABLE, bucket=bucket.name, reason="it was in use before")


async def _leave_behind(desk: DirectDesk, row: Mapping[str, Any]) -> None:
    upload_id, generation = row["upload_id"], row["aside_generation"]
    place = f"{row['bucket']}/{row['object_name']}#{generation}"
    async with desk.database.transaction() as tx:
        if not await store.note_aside(tx, upload_id, generation, place):
            return
    metrics.LEFT_BEHIND.inc()
    log.warning("direct.object_left_behind", upload=str(upload_id), object=place)
