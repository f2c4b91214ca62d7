"""Giving a job to another worker: an orphan, by the scan or by an operator; or one whose worker leaves in order.

The job's row is locked first and looked at again, so however many try at once, one gives it away. The worker that
is chosen finds the job when it next looks for its own (`pagework.jobs_for`), within a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import structlog
from prometheus_client import Counter

from penstock.documents import store_orphans, store_pages
from penstock.documents.orphan_settings import OrphanSettings
from penstock.documents.pagework import Hold, assert_holds, put_down
from penstock.documents.states import JOB, JobStatus
from penstock.kernel import error_codes, failpoints
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.statemachine import Step, move
from penstock.kernel.workers import workers_for_jobs

log = structlog.get_logger(__name__)

_requeued = Counter("gateway_orphan_requeued_total", "Orphan jobs requeued", ["method"])


@dataclass(frozen=True, slots=True)
class Wish:
    """Who wants an orphan to go on, and how."""

    method: Literal["auto", "manual"]
    requested_by: str
    target: str | None = None  # None: whoever has least to do
    force: bool = False  # even if it has been requeued too often today


@dataclass(frozen=True, slots=True)
class Requeued:
    """What became of it."""

    job_id: UUID
    merchant_id: str
    from_worker: str | None
    to_worker: str
    resumed_from: int
    requeues_today: int  # with this one


async def requeue(tx: Tx, job_id: UUID, wish: Wish, settings: OrphanSettings) -> Requeued:
    """From ORPHANED to PROCESSING at a living worker, from where it was; or a refusal that says why not."""
    job = await store_pages.locked_job(tx, job_id)
    if job is None:
        raise PenstockError(error_codes.JOB_NOT_FOUND, job_id=str(job_id))
    if job["status"] != JobStatus.ORPHANED:
        raise PenstockError(error_codes.JOB_NOT_ORPHANED, job_id=str(job_id), status=job["status"])
    before = await store_orphans.requeues_of_a_day(tx, job_id)
    if before >= settings.orphan_requeue_max and not wish.force:
        raise PenstockError(
            error_codes.REQUEUE_LIMIT, job_id=str(job_id), requeues=before, limit=settings.orphan_requeue_max
        )
    worker = await _chosen(tx, wish.target)
    measured = await store_pages.measure(tx, job_id) or {"page": 0, "skus": 0}
    given = Requeued(job_id, job["merchant_id"], job["worker_id"], worker, measured["page"], before + 1)
    await _give(tx, job, given, measured, wish)
    return given


def note_requeued(given: Requeued, method: str) -> None:
    """Counted and logged once the transaction stands."""
    _requeued.labels(method).inc()
    log.info(
        "job.requeued", job=str(given.job_id), method=method, worker=given.to_worker, resume_from=given.resumed_from
    )


async def hand_over(tx: Tx, hold: Hold) -> str | None:
    """A worker that leaves in order gives its job on; None if nobody is there, and the job becomes an orphan."""
    await store_pages.locked_job(tx, hold.job_id)
    await assert_holds(tx, hold)
    others = [name for name in await workers_for_jobs(tx) if name != hold.worker_id]
    worker = await store_orphans.least_loaded(tx, others)
    if worker is None:
        return None
    await put_down(tx, hold)
    await store_pages.take_hold(tx, hold.job_id, worker)
    facts = {"from_worker": hold.worker_id, "to_worker": worker}
    await announce(tx, Event("job.handed_over", "job", str(hold.job_id), facts, merchant_id=hold.merchant_id))
    return worker


async def _chosen(tx: Tx, target: str | None) -> str:
    living = await workers_for_jobs(tx)
    if target is not None:
        if target not in living:
            raise PenstockError(error_codes.WORKER_NOT_ALIVE, worker_id=target, alive=living[:20])
        return target
    worker = await store_orphans.least_loaded(tx, living)
    if worker is None:
        raise PenstockError(error_codes.NO_LIVING_WORKER)
    return worker


async def _give(tx: Tx, job: Mapping[str, Any], given: Requeued, measured: Mapping[str, Any], wish: Wish) -> None:
    facts = {
        "method": wish.method,
        "from_worker": given.from_worker,
        "to_worker": given.to_worker,
        "resume_from": given.resumed_from,
    }
    changes = {
        "worker_id": given.to_worker, "hold_token": job["hold_token"] + 1, "orphaned_at": None, "error_codes": [],
        "checkpoint_page": measured["page"], "checkpoint_skus": measured["skus"], "checkpoint_at": job["now"],
        "updated_at": job["now"],
    }  # fmt: skip
    await move(
        tx,
        JOB,
        Step(
            str(given.job_id), JobStatus.ORPHANED, JobStatus.PROCESSING, by="gateway",
            trigger=f"{wish.method}_requeue", operator=wish.requested_by, payload=facts, changes=changes,
            topics=(f"job:{given.job_id}",),
        ),
    )  # fmt: skip
    failpoints.reach("job.requeuing")
    await store_orphans.add_requeue(
        tx,
        {
            "job_id": given.job_id, "method": wish.method, "from_worker": given.from_worker,
            "to_worker": given.to_worker, "resumed_from": given.resumed_from, "requested_by": wish.requested_by,
        },
    )  # fmt: skip
    await announce(tx, Event("job.requeued", "job", str(given.job_id), facts, merchant_id=given.merchant_id))
