"""The SQL that only reads jobs, pages and records."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import sql

from penstock.kernel.db import Tx, fetch_all, fetch_one

# Of a page that was done again, the newest attempt is the page.
_PAGES = "select distinct on (page_number) * from pages where job_id = %(job_id)s order by page_number, attempt_no desc"


async def job(tx: Tx, job_id: UUID) -> dict[str, Any] | None:
    return await fetch_one(tx, "select * from pdf_jobs where job_id = %s", (job_id,))


async def jobs(
    tx: Tx, conditions: Sequence[sql.Composable], order: sql.Composable, values: dict[str, Any]
) -> list[dict[str, Any]]:
    """`conditions` and `order` are made by `conditions_of` and `keyset`."""
    where = sql.SQL(" and ").join([sql.SQL("true"), *conditions])
    query = sql.SQL("select * from pdf_jobs where {} order by {} limit %(limit)s").format(where, order)
    return await fetch_all(tx, query, values)


def equals(column: str) -> sql.Composed:
    return sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder(column))


def one_of(column: str) -> sql.Composed:
    return sql.SQL("{} = any({})").format(sql.Identifier(column), sql.Placeholder(column))


CREATED_FROM = sql.SQL("created_at >= %(created_from)s")
CREATED_BEFORE = sql.SQL("created_at < %(created_before)s")
NAMED_LIKE = sql.SQL("source_file ilike %(named_like)s")


def keyset(column: str, *, descending: bool) -> tuple[sql.Composed, sql.Composed]:
    """The order, and the condition that a row comes after the cursor's."""
    direction, sign = (sql.SQL("desc"), sql.SQL("<")) if descending else (sql.SQL("asc"), sql.SQL(">"))
    name = sql.Identifier(column)
    order = sql.SQL("{name} {direction}, job_id {direction}").format(name=name, direction=direction)
    after = sql.SQL("({name}, job_id) {sign} (%(after_value)s, %(after_id)s)").format(name=name, sign=sign)
    return order, after


async def page_counts(tx: Tx, job_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Pages by status, for each of these jobs."""
    rows = await fetch_all(
        tx,
        "select job_id, status, count(*) as pages from (select distinct on (job_id, page_number) job_id, status"
        " from pages where job_id = any(%s) order by job_id, page_number, attempt_no desc) newest"
        " group by job_id, status",
        (list(job_ids),),
    )
    counts: dict[UUID, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["job_id"], {})[row["status"]] = row["pages"]
    return counts


async def pages(tx: Tx, job_id: UUID, statuses: Sequence[str], after: int, limit: int | None) -> list[dict[str, Any]]:
    """In order; no statuses: all."""
    return await fetch_all(
        tx,
        f"select * from ({_PAGES}) newest where page_number > %(after)s"  # noqa: S608  a constant
        " and (%(statuses)s::text[] = '{}' or status = any(%(statuses)s)) order by page_number limit %(limit)s",
        {"job_id": job_id, "statuses": list(statuses), "after": after, "limit": limit},
    )


async def page(tx: Tx, job_id: UUID, number: int) -> dict[str, Any] | None:
    return await fetch_one(
        tx,
        "select * from pages where job_id = %s and page_number = %s order by attempt_no desc limit 1",
        (job_id, number),
    )


async def page_ids(tx: Tx, job_id: UUID) -> list[dict[str, Any]]:
    return await fetch_all(tx, "select id, page_number from pages where job_id = %s", (job_id,))


async def skus(tx: Tx, job_id: UUID, page_number: int | None, after: int, limit: int | None) -> list[dict[str, Any]]:
    """Those in force, in the order they were found."""
    return await fetch_all(
        tx,
        "select * from skus where job_id = %(job_id)s and not superseded and id > %(after)s"
        " and (%(page)s::int is null or page_number = %(page)s) order by id limit %(limit)s",
        {"job_id": job_id, "page": page_number, "after": after, "limit": limit},
    )


async def evaluation(tx: Tx, file_hash: str, config_version: str | None) -> dict[str, Any] | None:
    return await fetch_one(
        tx,
        "select * from evaluations where file_hash = %s and config_version = %s",
        (file_hash, config_version),
    )


async def jobs_by_status(tx: Tx, merchant_id: str | None, since: datetime | None = None) -> dict[str, int]:
    rows = await fetch_all(
        tx,
        "select status, count(*) as jobs from pdf_jobs where (%(merchant)s::text is null or merchant_id = %(merchant)s)"
        " and (%(since)s::timestamptz is null or created_at >= %(since)s) group by status",
        {"merchant": merchant_id, "since": since},
    )
    return {row["status"]: row["jobs"] for row in rows}


async def source_of(tx: Tx, job_id: UUID) -> dict[str, Any] | None:
    """Whose the job's file is, how it is called and where it lies; `source_key` is None when it is gone."""
    query = "select merchant_id, source_file, source_key, file_hash from pdf_jobs where job_id = %s"
    return await fetch_one(tx, query, (job_id,))
