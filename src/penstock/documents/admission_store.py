"""The SQL of admissions: who is just making a job of which upload."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.leases import Leasable, Lease

ADMISSIONS = Leasable("job_admissions", "upload_id", ready="true", order="created_at")


async def lock(tx: Tx, upload_id: str) -> dict[str, Any]:
    """The upload's row, made if need be; nobody else touches it before this transaction ends."""
    await tx.execute("insert into job_admissions (upload_id) values (%s) on conflict do nothing", (upload_id,))
    row = await fetch_one(
        tx,
        "select *, leased_until > clock_timestamp() as held from job_admissions where upload_id = %s for update",
        (upload_id,),
    )
    assert row is not None  # noqa: S101  it was there or has just been inserted
    return row


async def take(tx: Tx, upload_id: str, owner: str, ttl: timedelta, job_id: UUID) -> Lease:
    """Of a row that this transaction has locked and found free."""
    row = await fetch_one(
        tx,
        "update job_admissions set lease_owner = %s, leased_until = clock_timestamp() + %s,"
        " lease_token = lease_token + 1, lease_count = lease_count + 1, job_ids = job_ids || %s"
        " where upload_id = %s returning *",
        (owner, ttl, [job_id], upload_id),
    )
    assert row is not None  # noqa: S101  the row is locked
    return Lease(upload_id, row["lease_token"], row)


async def release(tx: Tx, lease: Lease, refusal: Mapping[str, Any] | None = None) -> None:
    """Free; with a refusal, those who waited for this attempt answer the same."""
    await tx.execute(
        "update job_admissions set lease_owner = null, leased_until = null, refusal = %s, refused_token = %s"
        " where upload_id = %s and lease_token = %s",
        (None if refusal is None else Jsonb(dict(refusal)), lease.token if refusal else None, lease.key, lease.token),
    )


async def leftovers(tx: Tx, age: timedelta, after: str, limit: int) -> list[dict[str, Any]]:
    """Rows that are old and in nobody's hands, in the order of their uploads, from beyond `after`."""
    return await fetch_all(
        tx,
        "select upload_id, job_ids from job_admissions where created_at < now() - %s::interval"
        " and (leased_until is null or leased_until < clock_timestamp() - %s::interval)"
        " and upload_id > %s order by upload_id limit %s",
        (age, age, after, limit),
    )


async def forget(tx: Tx, upload_id: str, job_ids: list[UUID]) -> None:
    """Unless somebody has tried again meanwhile."""
    await tx.execute(
        "delete from job_admissions where upload_id = %s and job_ids = %s"
        " and (leased_until is null or leased_until < clock_timestamp())",
        (upload_id, job_ids),
    )
