"""Files that no job has or should have: what broken admissions left, and what cancelled jobs leave behind."""

from datetime import timedelta
from uuid import UUID

import structlog

from penstock.documents import admission_store, store
from penstock.documents.desk import Desk, folder_of
from penstock.documents.settings import DocumentSettings
from penstock.kernel import failpoints
from penstock.kernel.db import Tx
from penstock.kernel.events import StoredEvent
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.reactions import Reaction

log = structlog.get_logger(__name__)

_AT_ONCE = 100


async def sweep_admissions(desk: Desk) -> int:
    """Remove what attempts that came to nothing had placed, then forget them; returns how many files went."""
    age = timedelta(minutes=desk.settings.admission_leftover_min)
    swept, after = 0, ""
    while True:
        async with desk.database.transaction() as tx:
            await store.forget_keys(tx, timedelta(hours=desk.settings.idempotency_hours))
            rows = await admission_store.leftovers(tx, age, after, _AT_ONCE)
            real = await store.jobs_that_exist(tx, [job_id for row in rows for job_id in row["job_ids"]])
        if not rows:
            break
        for row in rows:
            for job_id in set(row["job_ids"]) - real:
                swept += await _empty(desk.store, job_id)
        async with desk.database.transaction() as tx:
            for row in rows:
                await admission_store.forget(tx, row["upload_id"], row["job_ids"])
        after = rows[-1]["upload_id"]
    if swept:
        log.info("admission.leftovers_removed", files=swept)
    return swept


async def remove_files(desk: Desk) -> int:
    """Empty the folders of jobs whose files are to go; safe to repeat at any point. Returns how many jobs."""
    async with desk.database.transaction() as tx:
        due = await store.removals(tx, _AT_ONCE)
    for job_id in due:
        async with desk.database.transaction() as tx:
            await store.source_goes(tx, job_id)
        await _empty(desk.store, job_id)
        failpoints.reach("removal.emptied")
        async with desk.database.transaction() as tx:
            await store.removed(tx, job_id)
    return len(due)


def reactions(settings: DocumentSettings) -> list[Reaction]:
    """A cancelled job's files go, unless the policy keeps them."""

    async def note(tx: Tx, event: StoredEvent) -> None:
        if settings.cancelled_files == "delete":
            await store.ask_for_removal(tx, UUID(event.event.entity_id), "cancelled")

    return [Reaction("documents.files_of_cancelled", "job.cancelled", note)]


async def _empty(objects: ObjectStore, job_id: UUID) -> int:
    keys = [found.key async for found in objects.list(folder_of(job_id))]
    for key in keys:
        await objects.delete(key)
    return len(keys)
