"""The SQL of going through pages: who holds a job, which pages are left, how far it has come.

The row of a job is locked before those of its pages, always, so that nobody waits in a circle.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from penstock.documents.states import PageStatus
from penstock.kernel.db import Tx, fetch_all, fetch_one

# What the machine has yet to do; every other page is done, or is not the machine's.
UNFINISHED = (PageStatus.PENDING, PageStatus.AI_QUEUED, PageStatus.AI_PROCESSING, PageStatus.AI_FAILED)
_UNFINISHED = [str(status) for status in UNFINISHED]

# Greatest page such that it and all before it are done: what a resume need not look at.
_PREFIX = (
    "coalesce((select min(p.page_number) - 1 from pages p where p.job_id = j.job_id and p.status = any(%(todo)s)),"
    " j.total_pages)"
)
_RECORDS = (
    "(select count(*)::int from skus s where s.job_id = j.job_id and s.page_number <= {prefix} and not s.superseded)"
)


async def locked_job(tx: Tx, job_id: UUID) -> dict[str, Any] | None:
    """The job as it is, and stays until this transaction ends."""
    return await fetch_one(
        tx,
        "select job_id, merchant_id, status, worker_id, route, hold_token, orphaned_at, total_pages,"
        " clock_timestamp() as now from pdf_jobs where job_id = %s for no key update",
        (job_id,),
    )


async def oldest_waiting_job(tx: Tx) -> UUID | None:
    """One that is judged and that nobody has taken; those that others are just taking are passed over."""
    row = await fetch_one(
        tx,
        "select job_id from pdf_jobs where status = 'EVALUATED' order by created_at limit 1"
        " for no key update skip locked",
    )
    return row["job_id"] if row else None


async def assigned_jobs(tx: Tx, worker_id: str) -> list[dict[str, Any]]:
    return await fetch_all(
        tx,
        "select j.job_id, exists (select from pages p where p.job_id = j.job_id and p.status = any(%(todo)s))"
        " as unfinished from pdf_jobs j where j.worker_id = %(worker)s and j.status = 'PROCESSING'"
        " and j.route is not null"  # without a route it is still the evaluator's
        " order by j.process_started_at, j.job_id",
        {"worker": worker_id, "todo": _UNFINISHED},
    )


async def take_hold(tx: Tx, job_id: UUID, worker_id: str) -> int:
    """A new holder, hence a greater token; returns it."""
    row = await fetch_one(
        tx,
        "update pdf_jobs set hold_token = hold_token + 1, worker_id = %s, updated_at = now()"
        " where job_id = %s returning hold_token",
        (worker_id, job_id),
    )
    assert row is not None  # the caller has locked it  # noqa: S101
    return int(row["hold_token"])


async def time_if_held(tx: Tx, job_id: UUID, worker_id: str, token: int) -> datetime | None:
    """The time, if that holder still has the job; then nobody can take it before this transaction ends."""
    row = await fetch_one(
        tx,
        "select clock_timestamp() as now from pdf_jobs"
        " where job_id = %s and worker_id = %s and hold_token = %s and status = 'PROCESSING' for share",
        (job_id, worker_id, token),
    )
    return row["now"] if row else None


async def pages_in(tx: Tx, job_id: UUID, status: PageStatus) -> list[int]:
    rows = await fetch_all(tx, "select id from pages where job_id = %s and status = %s", (job_id, str(status)))
    return [row["id"] for row in rows]


async def note_claimed(tx: Tx, page_ids: list[int], worker_id: str) -> None:
    """Pages that a dead worker had in hand: their state says already what they are."""
    await tx.execute(
        "update pages set worker_id = %s, claimed_at = clock_timestamp(), updated_at = clock_timestamp()"
        " where id = any(%s)",
        (worker_id, page_ids),
    )


async def free_pages(tx: Tx, job_id: UUID) -> int:
    """Whoever held a page of the job holds it no more."""
    rows = await fetch_all(
        tx,
        "update pages set lease_owner = null, leased_until = null"
        " where job_id = %s and leased_until is not null returning 1",
        (job_id,),
    )
    return len(rows)


async def measure(tx: Tx, job_id: UUID) -> dict[str, Any] | None:
    """How far the job has come, by its pages."""
    return await fetch_one(
        tx,
        f"select {_PREFIX} as page, {_RECORDS.format(prefix=_PREFIX)} as skus from pdf_jobs j"  # noqa: S608
        " where j.job_id = %(job)s",
        {"job": job_id, "todo": _UNFINISHED},
    )


async def write_checkpoint(tx: Tx, job_id: UUID, worker_id: str, token: int) -> dict[str, Any] | None:
    """Measured and written by the holder in one statement; None if the job is no longer theirs."""
    return await fetch_one(
        tx,
        f"update pdf_jobs j set checkpoint_page = {_PREFIX}, checkpoint_skus = {_RECORDS.format(prefix=_PREFIX)},"  # noqa: S608
        " checkpoint_at = clock_timestamp(), updated_at = clock_timestamp()"
        " where j.job_id = %(job)s and j.worker_id = %(worker)s and j.hold_token = %(token)s"
        " and j.status = 'PROCESSING' returning checkpoint_page as page, checkpoint_skus as skus, checkpoint_at as at",
        {"job": job_id, "worker": worker_id, "token": token, "todo": _UNFINISHED},
    )


async def read_checkpoint(tx: Tx, job_id: UUID) -> dict[str, Any] | None:
    return await fetch_one(
        tx,
        "select checkpoint_page as page, checkpoint_skus as skus, checkpoint_at as at from pdf_jobs where job_id = %s",
        (job_id,),
    )
