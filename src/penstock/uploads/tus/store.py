"""All SQL of tus uploads."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Query, Step, enter_query, move, move_query
from penstock.uploads.tus.states import UPLOAD, UploadStatus

_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload, as PostgreSQL knows it."""

    upload_id: str
    merchant_id: str
    created_by: str
    status: UploadStatus
    filename: str
    metadata: str
    concat: str
    length: int | None
    received: int
    reserved: int
    lease_owner: str | None
    leased_until: datetime | None
    lease_token: int
    created_at: datetime
    expires_at: datetime
    finished_at: datetime | None
    job_id: Any = None

    @property
    def is_complete(self) -> bool:
        return self.received == self.length


_FIELDS = tuple(field.name for field in fields(Upload))


def from_row(row: dict[str, Any] | None) -> Upload | None:
    return None if row is None else _upload(row)


def _upload(row: dict[str, Any]) -> Upload:
    """Columns that a newer release has added are not ours to know."""
    known = {name: row[name] for name in _FIELDS}
    return Upload(**{**known, "status": UploadStatus(row["status"])})


def find_query(upload_id: str) -> Query:
    return "select * from tus_uploads where upload_id = %(id)s", {"id": upload_id}


async def find(tx: Tx, upload_id: str) -> Upload | None:
    return from_row(await fetch_one(tx, *find_query(upload_id)))


def present(upload: Upload | None, upload_id: str, merchant_id: str) -> Upload:
    """The upload itself; UPLOAD_NOT_FOUND also for another merchant's, UPLOAD_GONE for one that has ended."""
    if upload is None or upload.merchant_id != merchant_id:
        raise PenstockError(error_codes.UPLOAD_NOT_FOUND, upload_id=upload_id)
    if upload.status in (UploadStatus.EXPIRED, UploadStatus.CANCELLED):
        raise PenstockError(error_codes.UPLOAD_GONE, upload_id=upload_id, status=upload.status.value)
    return upload


async def find_all(tx: Tx, upload_ids: Sequence[str]) -> dict[str, Upload]:
    rows = await fetch_all(tx, "select * from tus_uploads where upload_id = any(%s)", (list(upload_ids),))
    return {row["upload_id"]: _upload(row) for row in rows}


def charge(size: int) -> int:
    """What a file of this size takes of the disk: at least a block."""
    return max(size, _BLOCK)


_BEGIN = (
    "insert into tus_uploads (upload_id, merchant_id, created_by, status, filename, metadata, concat, length, received,"
    " reserved, expires_at, finished_at)"
    " select %(id)s, %(merchant_id)s, %(created_by)s, %(target)s, %(filename)s, %(metadata)s, %(concat)s,"
    " %(length)s::bigint, %(received)s, %(reserved)s, %(expires_at)s, %(finished_at)s::timestamptz"
    " where case when (select count(*) from tus_uploads where merchant_id = %(merchant_id)s and status = 'UPLOADING')"
    "   < %(slots)s then tus_reserve(%(merchant_id)s, %(reserved)s::bigint, %(quota)s::bigint) else false end"
    " on conflict do nothing returning *"
)


def begin_query(upload: Upload, *, slots: int, quota: int) -> Query:
    """Record a new upload in its first state; no row when the merchant has too many or too much, or it is there."""
    values = {
        "created_by": upload.created_by, "filename": upload.filename, "metadata": upload.metadata,
        "concat": upload.concat, "length": upload.length, "received": upload.received, "reserved": upload.reserved,
        "expires_at": upload.expires_at, "finished_at": upload.finished_at, "slots": slots, "quota": quota,
    }  # fmt: skip
    return enter_query(UPLOAD, _step(upload, None, upload.status, "created"), _BEGIN, values)


def reserve_query(upload: Upload, size: int, *, quota: int, length: int | None = None) -> Query:
    """Reserve so much for an upload that began without a length, and note the length if it is known now.

    No row when the quota does not allow it, or when this writer may not write any more.
    """
    text = (
        "update tus_uploads set reserved = %(size)s, length = %(length)s::bigint where upload_id = %(id)s"
        " and status = 'UPLOADING' and length is null and received <= %(size)s and reserved = %(had)s"
        " and lease_token = %(token)s and tus_reserve(merchant_id, %(more)s::bigint, %(quota)s::bigint) returning *"
    )
    values = {"id": upload.upload_id, "size": size, "length": length, "had": upload.reserved}
    return text, {**values, "token": upload.lease_token, "more": size - upload.reserved, "quota": quota}


async def unfinished(tx: Tx, merchant_id: str) -> int:
    """How many slots the merchant's uploads take."""
    row = await fetch_one(
        tx,
        "select count(*) as found from tus_uploads where merchant_id = %s and status = 'UPLOADING'",
        (merchant_id,),
    )
    return int(row["found"]) if row else 0


async def recount(tx: Tx, merchant_id: str) -> None:
    """Take what has ended off the sum of a merchant's reservations.

    The sum and the rows are read in one snapshot, and only their difference is taken off: what is reserved while this
    runs stays counted. `recounts` sees to it that two of them do not take off the same.
    """
    await tx.execute(
        "with seen as (select held_bytes, recounts, (select coalesce(sum(greatest(reserved, received, length)), 0)"
        "   from tus_uploads where merchant_id = %(id)s and status in ('UPLOADING', 'FINISHED')) as used"
        "   from tus_quotas where merchant_id = %(id)s)"
        " update tus_quotas kept set held_bytes = kept.held_bytes - (seen.held_bytes - seen.used),"
        " recounts = kept.recounts + 1 from seen where merchant_id = %(id)s and kept.recounts = seen.recounts",
        {"id": merchant_id},
    )


def advance_query(upload: Upload, received: int, expires_at: datetime) -> Query:
    """Move the offset as the one who may; no row when somebody else has moved it, or may now instead."""
    text = (
        "update tus_uploads set received = %(to)s, expires_at = %(expires_at)s, leased_until = null"
        " where upload_id = %(id)s and status = 'UPLOADING' and received = %(from)s and lease_token = %(token)s"
        " returning *"
    )
    moved = {"from": upload.received, "to": received, "token": upload.lease_token, "expires_at": expires_at}
    return text, {"id": upload.upload_id, "merchant_id": upload.merchant_id, **moved}


def finish_query(upload: Upload, received: int, now: datetime, expires_at: datetime) -> Query:
    """Move the offset to the end; no row when that is not ours to do any more."""
    changes = {
        "received": received, "reserved": charge(received), "finished_at": now, "expires_at": expires_at,
        "lease_owner": None, "leased_until": None,
    }  # fmt: skip
    guards = {"received": upload.received, "lease_token": upload.lease_token}
    step = _step(upload, UploadStatus.UPLOADING, UploadStatus.FINISHED, "uploaded", changes=changes, guards=guards)
    return move_query(UPLOAD, step)


async def stay(tx: Tx, upload: Upload, owner: str) -> Upload | None:
    """Say that a writer pauses but may go on: others must fence it off first. None when it is fenced off already."""
    row = await fetch_one(
        tx,
        "update tus_uploads set lease_owner = %s, lease_token = lease_token + 1, leased_until = null"
        " where upload_id = %s and status = 'UPLOADING' and received = %s and lease_token = %s returning *",
        (owner, upload.upload_id, upload.received, upload.lease_token),
    )
    return _upload(row) if row else None


async def show_life(tx: Tx, upload: Upload, expires_at: datetime) -> bool:
    """Clear the suspicion that this writer is frozen, or its upload abandoned; False when it has been fenced off."""
    row = await fetch_one(
        tx,
        "update tus_uploads set leased_until = null, expires_at = %s where upload_id = %s and lease_token = %s"
        " and status = 'UPLOADING' returning 1",
        (expires_at, upload.upload_id, upload.lease_token),
    )
    return row is not None


async def suspect(tx: Tx, upload: Upload, patience: timedelta) -> None:
    """Give a writer that does not answer so long to show life."""
    await tx.execute(
        "update tus_uploads set leased_until = now() + %s where upload_id = %s and lease_token = %s"
        " and leased_until is null",
        (patience, upload.upload_id, upload.lease_token),
    )


async def is_overdue(tx: Tx, upload: Upload) -> bool:
    row = await fetch_one(
        tx,
        "select 1 from tus_uploads where upload_id = %s and lease_token = %s and leased_until < now()",
        (upload.upload_id, upload.lease_token),
    )
    return row is not None


async def fence(tx: Tx, upload: Upload, owner: str | None = None) -> Upload | None:
    """From now on no earlier writer can move the offset; None when it has just moved.

    With an owner, whoever comes next has to fence that one off in turn.
    """
    row = await fetch_one(
        tx,
        "update tus_uploads set lease_token = lease_token + 1, lease_owner = %s, leased_until = null"
        " where upload_id = %s and status = 'UPLOADING' and received = %s and lease_token = %s returning *",
        (owner, upload.upload_id, upload.received, upload.lease_token),
    )
    return _upload(row) if row else None


async def cancel(tx: Tx, upload: Upload, operator: str) -> None:
    await move(tx, UPLOAD, _step(upload, upload.status, UploadStatus.CANCELLED, "terminated", operator=operator))


async def expire(tx: Tx, upload: Upload) -> None:
    """STATE_CHANGED when bytes arrived after all."""
    guards = {"expires_at": upload.expires_at}
    step = _step(upload, upload.status, UploadStatus.EXPIRED, "expired", by="scheduler", operator=None, guards=guards)
    await move(tx, UPLOAD, step)


async def held_bytes(tx: Tx, merchant_id: str) -> int:
    """What the merchant's uploads take, or will when they are whole; what has just ended may be among it."""
    row = await fetch_one(tx, "select held_bytes from tus_quotas where merchant_id = %s", (merchant_id,))
    return int(row["held_bytes"]) if row else 0


async def due(tx: Tx, limit: int) -> list[Upload]:
    """Uploads whose time is over."""
    rows = await fetch_all(
        tx,
        "select * from tus_uploads where status in ('UPLOADING', 'FINISHED') and expires_at < now()"
        " order by expires_at limit %s",
        (limit,),
    )
    return [_upload(row) for row in rows]


async def expire_soon(tx: Tx, upload_ids: Sequence[str], expires_at: datetime) -> None:
    """Parts that were joined are not needed for long."""
    await tx.execute(
        "update tus_uploads set expires_at = least(expires_at, %s) where upload_id = any(%s) and status = 'FINISHED'",
        (expires_at, list(upload_ids)),
    )


async def forget(tx: Tx, remembered: timedelta) -> int:
    """Drop the rows of uploads that ended long ago; their history stays."""
    rows = await fetch_all(
        tx,
        "delete from tus_uploads where status in ('ADMITTED', 'EXPIRED', 'CANCELLED')"
        " and expires_at < now() - %s returning 1",
        (remembered,),
    )
    return len(rows)


async def with_data(tx: Tx, upload_ids: Sequence[str]) -> set[str]:
    """Of these, the uploads whose bytes are still wanted."""
    rows = await fetch_all(
        tx,
        "select upload_id from tus_uploads where upload_id = any(%s) and status in ('UPLOADING', 'FINISHED')",
        (list(upload_ids),),
    )
    return {row["upload_id"] for row in rows}


def _step(
    upload: Upload, source: UploadStatus | None, target: UploadStatus, trigger: str, *, by: str = "uploads", **more: Any
) -> Step:
    payload = {"filename": upload.filename, "length": upload.length}
    more = {"operator": upload.created_by, **more}
    return Step(
        upload.upload_id,
        source,
        target,
        by=by,
        trigger=trigger,
        merchant_id=upload.merchant_id,
        payload=payload,
        **more,
    )
