"""Cancelling a job: work that waits never begins, work in hand stops at its next page."""

from typing import Any
from uuid import UUID

from penstock.documents import events, metrics, store
from penstock.documents.states import JOB, JobStatus
from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.statemachine import Step, move


async def cancel(tx: Tx, job_id: UUID, caller: Caller) -> dict[str, Any]:
    """The job as it is then. JOB_TERMINAL when it has ended, whoever ended it."""
    job = await store.lock_job(tx, job_id)
    if job is None or not caller.sees(job["merchant_id"]):
        raise PenstockError(error_codes.JOB_NOT_FOUND, job_id=str(job_id))
    status = JobStatus(job["status"])
    if status in JOB.terminal:
        raise PenstockError(error_codes.JOB_TERMINAL, job_id=str(job_id), status=status.value)
    if status is JobStatus.ORPHANED and not caller.sees_all:
        raise PenstockError(error_codes.ROLE_DENIED, role=caller.role.value, needs=["admin", "operator"])
    topic = events.topic_of(job_id)
    step = Step(
        str(job_id),
        status,
        JobStatus.CANCELLED,
        by="api",
        trigger="cancel",
        operator=caller.user_id,
        changes={"updated_at": job["now"]},
        payload=events.failure(job_id, error_codes.JOB_CANCELLED),
        topics=(topic,),
        order_key=topic,
    )
    moved = await move(tx, JOB, step)
    await store.take_pages_away(tx, job_id)
    return moved


def count_cancelled() -> None:
    """After the commit."""
    metrics.CANCELLED.inc()


async def assert_job_running(tx: Tx, job_id: UUID) -> JobStatus:
    """For those who work on pages, first thing in each transaction that writes: the job cannot end before it does.

    JOB_CANCELLED or JOB_TERMINAL tell the worker to stop. It comes before any page is locked, as cancelling
    locks the job first and its pages then.
    """
    status = await store.status_held(tx, job_id)
    if status is None:
        raise PenstockError(error_codes.JOB_NOT_FOUND, job_id=str(job_id))
    if status is JobStatus.CANCELLED:
        raise PenstockError(error_codes.JOB_CANCELLED, job_id=str(job_id))
    if status in JOB.terminal:
        raise PenstockError(error_codes.JOB_TERMINAL, job_id=str(job_id), status=status.value)
    return status
