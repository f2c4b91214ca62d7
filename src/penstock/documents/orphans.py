"""Jobs whose worker died: found, paused, and after a rest given to a living worker.

Every job is its own transaction, with the duty's fence and the job's row locked and looked at again: two schedulers,
an operator and a worker that comes back may all act at once and each job still takes one step. Once a job is
ORPHANED its former holder cannot write to it, so a worker that wakes up during the rest finds itself without it.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from prometheus_client import Counter

from penstock.documents import events, store_orphans, store_pages
from penstock.documents.orphan_settings import OrphanSettings
from penstock.documents.pagework import PAGES
from penstock.documents.requeue import Wish, note_requeued, requeue
from penstock.documents.states import JOB, JobStatus
from penstock.kernel import error_codes, failpoints, leases
from penstock.kernel.db import Database, Tx
from penstock.kernel.errors import Language, PenstockError
from penstock.kernel.scheduler import Fence
from penstock.kernel.statemachine import Step, move
from penstock.kernel.workers import forget_job

log = structlog.get_logger(__name__)

_MOST = 500  # of one scan; the next one goes on
_detected = Counter("gateway_orphan_detected_total", "Orphan jobs detected")


@dataclass(frozen=True, slots=True)
class OrphanScan:
    """The duty. `worker_ttl` is the silence after which a worker is dead."""

    database: Database
    settings: OrphanSettings
    worker_ttl: timedelta
    language: Language

    async def run(self, fence: Fence) -> None:
        async with self.database.transaction() as tx:
            await fence.hold(tx)
            await leases.expire(tx, PAGES)
            abandoned = await store_orphans.abandoned_jobs(tx, self.worker_ttl, limit=_MOST)
        for job_id in abandoned:
            await self._pause(fence, job_id)
        async with self.database.transaction() as tx:
            rested = await store_orphans.rested_jobs(
                tx, self.settings.orphan_requeue_cooldown_sec, self.settings.orphan_requeue_max, limit=_MOST
            )
        for job_id in rested:
            if not await self._resume(fence, job_id):
                break

    async def _pause(self, fence: Fence, job_id: UUID) -> None:
        async with self.database.transaction() as tx:
            await fence.hold(tx)
            worker_id = await orphan(tx, job_id, self.worker_ttl, self.language)
            failpoints.reach("job.orphaning")
        if worker_id is not None:
            _detected.inc()
            log.warning("job.orphaned", job=str(job_id), worker=worker_id)

    async def _resume(self, fence: Fence, job_id: UUID) -> bool:
        """False if there is no use in going on with the others."""
        try:
            async with self.database.transaction() as tx:
                await fence.hold(tx)
                given = await requeue(tx, job_id, Wish("auto", requested_by="gateway"), self.settings)
        except PenstockError as refusal:
            if refusal.code is error_codes.NO_LIVING_WORKER:
                log.warning("job.no_worker_for_it", job=str(job_id))
                return False
            if refusal.code not in (error_codes.JOB_NOT_ORPHANED, error_codes.REQUEUE_LIMIT):
                raise
            return True  # somebody else was faster
        note_requeued(given, "auto")
        return True


async def orphan(tx: Tx, job_id: UUID, worker_ttl: timedelta, language: Language) -> str | None:
    """Pause the job if its worker is dead still; returns that worker."""
    job = await store_orphans.locked_if_abandoned(tx, job_id, worker_ttl)
    if job is None:
        return None
    code = error_codes.JOB_ORPHANED
    said = events.failure(job_id, code, worker_id=job["worker_id"]) | {
        "message": code.message.in_language(language),
        "action_hint": code.remedy.in_language(language),
    }
    measured = await store_pages.measure(tx, job_id) or {"page": 0, "skus": 0}
    changes = {
        "orphaned_at": job["now"], "updated_at": job["now"], "error_codes": [code.code],
        "checkpoint_page": measured["page"], "checkpoint_skus": measured["skus"], "checkpoint_at": job["now"],
    }  # fmt: skip
    await move(
        tx,
        JOB,
        Step(
            str(job_id), JobStatus(job["status"]), JobStatus.ORPHANED, by="gateway", trigger="heartbeat_scan",
            payload=said, changes=changes, topics=(f"job:{job_id}",),
        ),
    )  # fmt: skip
    await store_pages.free_pages(tx, job_id)
    await forget_job(tx, job["worker_id"], job_id)
    return str(job["worker_id"])
