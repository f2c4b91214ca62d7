"""What may be asked about jobs. Everything is of the caller's merchant, unless the caller sees all: another
merchant's job is answered as if it did not exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from psycopg import sql

from penstock.documents import query_store
from penstock.documents.desk import Desk
from penstock.documents.states import JobStatus
from penstock.documents.wording import Progress
from penstock.kernel import cursors, error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.retention import histories

_READY = (JobStatus.PARTIAL_IMPORTED, JobStatus.FULL_IMPORTED)


class SortBy(StrEnum):
    """What jobs can be sorted by: nothing that changes while somebody reads on."""

    CREATED_AT = "created_at"
    SOURCE_FILE = "source_file"
    TOTAL_PAGES = "total_pages"
    FILE_SIZE = "file_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs, in which order."""

    merchant_id: str | None = None
    statuses: Sequence[str] = ()
    user_statuses: Sequence[str] = ()
    category: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    named: str | None = None
    sort: SortBy = SortBy.CREATED_AT
    descending: bool = True
    cursor: str | None = None
    limit: int = 50

    @property
    def question(self) -> str:
        return f"jobs {self.sort} {'desc' if self.descending else 'asc'}"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a list, and where the next begins; no cursor: that was all."""

    rows: list[dict[str, Any]]
    next_cursor: str | None = None
    counts: Mapping[UUID, Mapping[str, int]] = field(default_factory=dict)


async def visible_job(tx: Tx, job_id: UUID, caller: Caller) -> dict[str, Any]:
    """JOB_NOT_FOUND also for another merchant's."""
    job = await query_store.job(tx, job_id)
    if job is None or not caller.sees(job["merchant_id"]):
        raise PenstockError(error_codes.JOB_NOT_FOUND, job_id=str(job_id))
    return job


async def find_jobs(tx: Tx, caller: Caller, wanted: Wanted) -> Part:
    if wanted.merchant_id is not None and not caller.sees(wanted.merchant_id):
        raise PenstockError(error_codes.MERCHANT_DENIED, merchant=wanted.merchant_id)
    merchant = wanted.merchant_id or (None if caller.sees_all else caller.merchant_id)
    conditions, values = _conditions(wanted, merchant)
    order, after = query_store.keyset(wanted.sort, descending=wanted.descending)
    if wanted.cursor is not None:
        conditions.append(after)
        values |= _after(wanted, wanted.cursor)
    rows = await query_store.jobs(tx, conditions, order, values | {"limit": wanted.limit + 1})
    rows, more = rows[: wanted.limit], len(rows) > wanted.limit
    cursor = cursors.pack(wanted.question, _spoken(rows[-1][wanted.sort]), str(rows[-1]["job_id"])) if more else None
    return Part(rows, cursor, await query_store.page_counts(tx, [row["job_id"] for row in rows]))


def _conditions(wanted: Wanted, merchant: str | None) -> tuple[list[sql.Composable], dict[str, Any]]:
    asked: list[tuple[sql.Composable, str, Any]] = [
        (query_store.equals("merchant_id"), "merchant_id", merchant),
        (query_store.one_of("status"), "status", list(wanted.statuses) or None),
        (query_store.one_of("user_status"), "user_status", list(wanted.user_statuses) or None),
        (query_store.equals("category"), "category", wanted.category),
        (query_store.CREATED_FROM, "created_from", wanted.created_from),
        (query_store.CREATED_BEFORE, "created_before", wanted.created_before),
        (query_store.NAMED_LIKE, "named_like", None if wanted.named is None else f"%{_literally(wanted.named)}%"),
    ]
    given = [(condition, name, value) for condition, name, value in asked if value is not None]
    return [condition for condition, _, _ in given], {name: value for _, name, value in given}


def _literally(text: str) -> str:
    """Wildcards of LIKE stand for themselves."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _spoken(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _after(wanted: Wanted, cursor: str) -> dict[str, Any]:
    kind = int if wanted.sort in (SortBy.TOTAL_PAGES, SortBy.FILE_SIZE) else str
    value, job_id = cursors.unpack(cursor, wanted.question, kind, str)
    if isinstance(value, str) and "\x00" in value:  # no name holds it, and PostgreSQL refuses the question
        raise PenstockError(error_codes.CURSOR_INVALID)
    try:
        if wanted.sort is SortBy.CREATED_AT:
            value = datetime.fromisoformat(value)
        return {"after_value": value, "after_id": UUID(job_id)}
    except ValueError:
        raise PenstockError(error_codes.CURSOR_INVALID) from None


async def progress_of(tx: Tx, job: Mapping[str, Any]) -> Progress:
    counts = await query_store.page_counts(tx, [job["job_id"]])
    return Progress(job["total_pages"], counts.get(job["job_id"], {}))


async def find_pages(tx: Tx, job_id: UUID, statuses: Sequence[str], cursor: str | None, limit: int) -> Part:
    after = 0 if cursor is None else cursors.unpack(cursor, "pages", int)[0]
    rows = await query_store.pages(tx, job_id, statuses, _small(after), limit + 1)
    more = len(rows) > limit
    return Part(rows[:limit], cursors.pack("pages", rows[limit - 1]["page_number"]) if more else None)


async def find_page(tx: Tx, job_id: UUID, number: int) -> dict[str, Any]:
    page = await query_store.page(tx, job_id, number)
    if page is None:
        raise PenstockError(error_codes.PAGE_NOT_FOUND, job_id=str(job_id), page=number)
    return page


async def find_skus(tx: Tx, job_id: UUID, page: int | None, cursor: str | None, limit: int) -> Part:
    after = 0 if cursor is None else cursors.unpack(cursor, "skus", int)[0]
    rows = await query_store.skus(tx, job_id, page, _small(after), limit + 1)
    more = len(rows) > limit
    return Part(rows[:limit], cursors.pack("skus", rows[limit - 1]["id"]) if more else None)


async def result_of(tx: Tx, job: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All pages and records; RESULT_NOT_READY until there is something imported."""
    if job["status"] not in _READY:
        raise PenstockError(error_codes.RESULT_NOT_READY, job_id=str(job["job_id"]), status=job["status"])
    pages = await query_store.pages(tx, job["job_id"], (), 0, None)
    return pages, await query_store.skus(tx, job["job_id"], None, 0, None)


async def evaluation_of(tx: Tx, job: Mapping[str, Any]) -> dict[str, Any]:
    found = await query_store.evaluation(tx, job["file_hash"], job["frozen_config_version"])
    if found is None:
        raise PenstockError(error_codes.EVALUATION_NOT_READY, job_id=str(job["job_id"]))
    return found


async def timeline_of(desk: Desk, job_id: UUID, cursor: str | None, limit: int) -> Part:
    """Every change of state of the job and its pages, archived ones included. No transaction is held meanwhile."""
    after = 0 if cursor is None else cursors.unpack(cursor, "timeline", int)[0]
    async with desk.database.transaction() as tx:
        numbers = {str(row["id"]): row["page_number"] for row in await query_store.page_ids(tx, job_id)}
    found = await histories(desk.database, desk.store, [("job", str(job_id)), *(("page", id_) for id_ in numbers)])
    rows = [
        row | {"page_number": numbers.get(row["entity_id"]) if row["entity_type"] == "page" else None}
        for row in found
        if row["id"] > after
    ]
    more = len(rows) > limit
    return Part(rows[:limit], cursors.pack("timeline", rows[limit - 1]["id"]) if more else None)


def _small(number: int) -> int:
    """A cursor that was made up cannot make the database complain about its size."""
    return max(0, min(number, 2**31 - 1))
