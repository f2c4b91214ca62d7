"""The SQL of jobs whose worker died, and of giving jobs to others."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from penstock.kernel.db import Tx, fetch_all, fetch_one

_DAY = timedelta(hours=24)

# Dead by its own row; or without a row for longer than a dead one would still have been believed alive.
_ABANDONED = (
    "j.status in ('EVALUATING', 'PROCESSING') and j.worker_id is not null and (exists"
    " (select from worker_heartbeats w where w.worker_id = j.worker_id and w.status = 'DEAD') or (not exists"
    " (select from worker_heartbeats w where w.worker_id = j.worker_id)"
    " and greatest(j.updated_at, j.process_started_at, j.eval_started_at) < now() - %(ttl)s::interval))"
)


async def abandoned_jobs(tx: Tx, ttl: timedelta, *, limit: int) -> list[UUID]:
    rows = await fetch_all(
        tx,
        f"select j.job_id from pdf_jobs j where {_ABANDONED} order by j.created_at limit %(limit)s",  # noqa: S608
        {"ttl": ttl, "limit": limit},
    )
    return [row["job_id"] for row in rows]


async def locked_if_abandoned(tx: Tx, job_id: UUID, ttl: timedelta) -> dict[str, Any] | None:
    """Looked at again under the lock: its worker may be back, somebody may have cancelled it."""
    return await fetch_one(
        tx,
        "select j.job_id, j.status, j.worker_id, clock_timestamp() as now from pdf_jobs j"  # noqa: S608
        f" where j.job_id = %(job)s and {_ABANDONED} for no key update of j",
        {"job": job_id, "ttl": ttl},
    )


async def rested_jobs(tx: Tx, cooldown: timedelta, most: int, *, limit: int) -> list[UUID]:
    """Orphaned for long enough, and not requeued too often within a day; the longest orphaned first."""
    rows = await fetch_all(
        tx,
        "select j.job_id from pdf_jobs j where j.status = 'ORPHANED'"
        " and j.orphaned_at <= now() - %(cooldown)s::interval"
        " and (select count(*) from job_requeues r where r.job_id = j.job_id"
        "  and r.requeued_at > now() - %(day)s::interval) < %(most)s"
        " order by j.orphaned_at limit %(limit)s",
        {"cooldown": cooldown, "day": _DAY, "most": most, "limit": limit},
    )
    return [row["job_id"] for row in rows]


async def requeues_of_a_day(tx: Tx, job_id: UUID) -> int:
    row = await fetch_one(
        tx,
        "select count(*)::int as number from job_requeues where job_id = %s and requeued_at > now() - %s::interval",
        (job_id, _DAY),
    )
    return row["number"] if row else 0


async def least_loaded(tx: Tx, workers: list[str]) -> str | None:
    """Of these, the one with the fewest jobs; of equals, the first named."""
    row = await fetch_one(
        tx,
        "select w.worker_id from unnest(%s::text[]) with ordinality w(worker_id, place) left join pdf_jobs j"
        " on j.worker_id = w.worker_id and j.status in ('EVALUATING', 'PROCESSING')"
        " group by w.worker_id, w.place order by count(j.job_id), w.place limit 1",
        (workers,),
    )
    return row["worker_id"] if row else None


async def add_requeue(tx: Tx, requeue: dict[str, Any]) -> None:
    await tx.execute(
        "insert into job_requeues (job_id, method, from_worker, to_worker, resumed_from, requested_by)"
        " values (%(job_id)s, %(method)s, %(from_worker)s, %(to_worker)s, %(resumed_from)s, %(requested_by)s)",
        requeue,
    )
