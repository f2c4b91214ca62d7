"""What ended tasks have left is removed when its time is over: the artefacts first, later the row, last the document.

A row goes only after its artefacts are gone, so nothing is ever left in the store that no row knows of; killed at any
line, the next round repeats it. Whether artefacts may still be used is a matter of time, by the database's clock, and
not of whether they are still there: a retry that comes while they are being removed is refused, one that reads anew
writes beside them, and only generations that had ended are removed.
"""

from dataclasses import dataclass

import structlog

from penstock.extraction import store
from penstock.extraction.content import remove_unread
from penstock.extraction.desk import EtlDesk
from penstock.extraction.folder import remove_generations

log = structlog.get_logger(__name__)

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Expired:
    """What one round removed."""

    folders: int = 0
    tasks: int = 0
    documents: int = 0


async def expire(desk: EtlDesk) -> Expired:
    """In batches, until nothing is due. Safe to run twice, and at any time."""
    folders = tasks = 0
    while cleared := await _clear_some(desk):
        folders += cleared
    while forgotten := await _forget_some(desk):
        tasks += forgotten
    documents = await remove_unread(desk)
    log.info("etl.expired", folders=folders, tasks=tasks, documents=documents)
    return Expired(folders, tasks, documents)


async def _clear_some(desk: EtlDesk) -> int:
    async with desk.database.transaction() as tx:
        due = await store.to_clear(tx, desk.settings.artefacts_days, _AT_ONCE)
    for row in due:
        await remove_generations(desk.store, row["task_id"], up_to=row["generation"])
        async with desk.database.transaction() as tx:
            await store.mark_cleared(tx, row["task_id"], row["generation"])
    return len(due)


async def _forget_some(desk: EtlDesk) -> int:
    async with desk.database.transaction() as tx:
        return await store.forget(tx, desk.settings.tasks_days, _AT_ONCE)
