"""The SQL that writes jobs and pages; `query_store.py` has the SQL that only reads."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import sql

from penstock.documents.states import JobStatus, PageStatus
from penstock.kernel import json
from penstock.kernel.db import Tx, fetch_all, fetch_one


async def insert_job(tx: Tx, columns: Mapping[str, Any]) -> dict[str, Any]:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    places = sql.SQL(", ").join(map(sql.Placeholder, columns))
    row = await fetch_one(
        tx, sql.SQL("insert into pdf_jobs ({}) values ({}) returning *").format(names, places), columns
    )
    assert row is not None  # noqa: S101  an insert returns its row or raises
    return row


async def insert_pages(
    tx: Tx, job_id: UUID, statuses: Sequence[PageStatus], features: Sequence[Any]
) -> list[dict[str, Any]]:
    """Pages 1 to n in one statement; their ids in order."""
    return await fetch_all(
        tx,
        "insert into pages (job_id, page_number, status, features)"
        " select %s, given.n, given.status, given.features::jsonb"
        " from unnest(%s::text[], %s::text[]) with ordinality as given(status, features, n) order by given.n"
        " returning id, page_number, status",
        (job_id, list(statuses), [json.dumps(each) for each in features]),
    )


async def job_of_upload(tx: Tx, upload_id: str) -> dict[str, Any] | None:
    return await fetch_one(tx, "select * from pdf_jobs where upload_id = %s", (upload_id,))


async def lock_content(tx: Tx, merchant_id: str, file_hash: str) -> None:
    """Until the end of this transaction nobody else decides whether this content is new to the merchant."""
    await tx.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{merchant_id} {file_hash}",))


async def earlier_job(tx: Tx, merchant_id: str, file_hash: str, upload_id: str) -> UUID | None:
    """The merchant's oldest job of this content, from another upload, that was neither refused nor cancelled."""
    row = await fetch_one(
        tx,
        "select job_id from pdf_jobs where merchant_id = %s and file_hash = %s and status <> all(%s)"
        " and upload_id is distinct from %s order by created_at, job_id limit 1",
        (merchant_id, file_hash, [JobStatus.REJECTED, JobStatus.CANCELLED], upload_id),
    )
    return None if row is None else row["job_id"]


async def jobs_that_exist(tx: Tx, job_ids: Sequence[UUID]) -> set[UUID]:
    rows = await fetch_all(tx, "select job_id from pdf_jobs where job_id = any(%s)", (list(job_ids),))
    return {row["job_id"] for row in rows}


async def lock_job(tx: Tx, job_id: UUID) -> dict[str, Any] | None:
    """With the time, as `now`, by the database's clock."""
    return await fetch_one(
        tx, "select *, clock_timestamp() as now from pdf_jobs where job_id = %s for update", (job_id,)
    )


async def status_held(tx: Tx, job_id: UUID) -> JobStatus | None:
    """The status, which cannot change before this transaction ends."""
    row = await fetch_one(tx, "select status from pdf_jobs where job_id = %s for share", (job_id,))
    return None if row is None else JobStatus(row["status"])


async def take_pages_away(tx: Tx, job_id: UUID) -> int:
    """Whoever holds a page of the job has lost it: the greater token fences them off."""
    rows = await fetch_all(
        tx,
        "update pages set lease_owner = null, leased_until = null, lease_token = lease_token + 1"
        " where job_id = %s and leased_until is not null returning 1",
        (job_id,),
    )
    return len(rows)


# --- keys that callers choose ------------------------------------------------------------------------------
async def reserve_key(tx: Tx, merchant_id: str, key: str, request_hash: str) -> dict[str, Any]:
    """The key's row, new or old."""
    await tx.execute(
        "insert into idempotency_keys (merchant_id, key, request_hash) values (%s, %s, %s) on conflict do nothing",
        (merchant_id, key, request_hash),
    )
    row = await fetch_one(tx, "select * from idempotency_keys where merchant_id = %s and key = %s", (merchant_id, key))
    assert row is not None  # noqa: S101  it was there or has just been inserted
    return row


async def bind_key(tx: Tx, merchant_id: str, key: str, job_id: UUID) -> None:
    await tx.execute(
        "update idempotency_keys set job_id = %s where merchant_id = %s and key = %s and job_id is null",
        (job_id, merchant_id, key),
    )


async def forget_keys(tx: Tx, age: timedelta) -> int:
    rows = await fetch_all(
        tx, "delete from idempotency_keys where created_at < now() - %s::interval returning 1", (age,)
    )
    return len(rows)


# --- files that are to go ----------------------------------------------------------------------------------
async def ask_for_removal(tx: Tx, job_id: UUID, reason: str) -> None:
    await tx.execute(
        "insert into job_file_removals (job_id, reason) values (%s, %s) on conflict do nothing", (job_id, reason)
    )


async def removals(tx: Tx, limit: int) -> list[UUID]:
    rows = await fetch_all(tx, "select job_id from job_file_removals order by requested_at, job_id limit %s", (limit,))
    return [row["job_id"] for row in rows]


async def source_goes(tx: Tx, job_id: UUID) -> None:
    """Before the files: whoever puts one beside the source looks afterwards whether there still is one."""
    await tx.execute("update pdf_jobs set source_key = null where job_id = %s", (job_id,))


async def removed(tx: Tx, job_id: UUID) -> None:
    await tx.execute("delete from job_file_removals where job_id = %s", (job_id,))
