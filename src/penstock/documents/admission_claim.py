"""One upload, one job, however many ask at once.

Whoever gets the lease of the upload's row in `job_admissions` does the work; the others wait for how it ends: a job,
or a refusal that the row keeps for them. A holder that dies stops renewing, and one of those who wait takes over
when the lease has run out. Every attempt has a job id of its own, noted in the row before anything is written to
the store, so that a sweep finds what a dead attempt left there.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from penstock.documents import admission_store, store
from penstock.documents.admission_store import ADMISSIONS
from penstock.documents.desk import Desk
from penstock.documents.order import Order
from penstock.kernel import error_codes, leases
from penstock.kernel.db import Tx
from penstock.kernel.errors import Kind, PenstockError, raise_unless_unavailable
from penstock.kernel.leases import Lease
from penstock.uploads.tus import FinishedUpload, finished_upload

_FIRST_LOOK, _LAST_LOOK = 0.05, 0.5  # seconds between two looks at an admission that somebody else holds


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to make the job."""

    upload: FinishedUpload
    lease: Lease
    job_id: UUID


@dataclass(frozen=True, slots=True)
class _Held:
    """Somebody else is at it."""

    token: int


async def claim_or_outcome(desk: Desk, order: Order) -> Claim | dict[str, Any]:
    """A claim, or the job that is there. Waits for others, but not for ever: then ADMISSION_UNDER_WAY."""
    deadline = asyncio.get_running_loop().time() + desk.settings.admission_wait_sec
    held: _Held | None = None
    pause = _FIRST_LOOK
    while True:
        async with desk.database.transaction() as tx:
            found = await _look(tx, desk, order, held)
        if not isinstance(found, _Held):
            return found
        held = held or found
        if asyncio.get_running_loop().time() > deadline:
            raise PenstockError(error_codes.ADMISSION_UNDER_WAY, upload_id=order.upload_id, retry_after=5)
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LAST_LOOK)


async def _look(tx: Tx, desk: Desk, order: Order, waited_for: _Held | None) -> Claim | dict[str, Any] | _Held:
    await check_key(tx, order)
    job = await _job_of(tx, order)
    if job is not None:
        return job
    upload = await _upload_of(tx, desk, order)  # first, as a stranger must not learn that somebody is at it
    row = await admission_store.lock(tx, order.upload_id)
    job = await _job_of(tx, order)  # again: it may have come while we waited for the lock
    if job is not None:
        return job
    if row["held"]:
        return _Held(row["lease_token"])
    if waited_for is not None:
        _answer_the_same(row, waited_for, order)
    job_id = uuid4()
    ttl = timedelta(seconds=desk.settings.admission_lease_sec)
    lease = await admission_store.take(tx, order.upload_id, desk.worker_id, ttl, job_id)
    return Claim(upload, lease, job_id)


async def _upload_of(tx: Tx, desk: Desk, order: Order) -> FinishedUpload:
    """The owner's, or one that the caller sent as themselves before they began to act for the owner."""
    try:
        return await finished_upload(tx, order.upload_id, order.owner.merchant_id, desk.uploads.directory)
    except PenstockError as missing:
        if missing.code is not error_codes.UPLOAD_NOT_FOUND or order.owner.merchant_id == order.caller.merchant_id:
            raise
    return await finished_upload(tx, order.upload_id, order.caller.merchant_id, desk.uploads.directory)


async def check_key(tx: Tx, order: Order) -> None:
    """The same key with another request is refused before anything is done."""
    if order.idempotency_key is None:
        return
    row = await store.reserve_key(tx, order.owner.merchant_id, order.idempotency_key, order.digest)
    if row["request_hash"] != order.digest:
        raise PenstockError(error_codes.IDEMPOTENCY_KEY_REUSED, job_id=row["job_id"] and str(row["job_id"]))


async def _job_of(tx: Tx, order: Order) -> dict[str, Any] | None:
    job = await store.job_of_upload(tx, order.upload_id)
    if job is None:
        return None
    if job["merchant_id"] != order.owner.merchant_id:
        raise PenstockError(error_codes.UPLOAD_NOT_FOUND, upload_id=order.upload_id)
    if order.idempotency_key is not None:
        await store.bind_key(tx, order.owner.merchant_id, order.idempotency_key, job["job_id"])
    return job


def _answer_the_same(row: Mapping[str, Any], waited_for: _Held, order: Order) -> None:
    refusal = row["refusal"]
    if refusal is None or row["refused_token"] < waited_for.token or refusal["request"] != order.digest:
        return
    raise PenstockError(error_codes.REGISTRY[refusal["code"]], **refusal["details"])


@asynccontextmanager
async def holding(desk: Desk, order: Order, claim: Claim) -> AsyncIterator[None]:
    """Renews the claim while the block runs; lets go of it, with the reason, when the block fails."""
    keeping = asyncio.create_task(_keep(desk, claim))
    try:
        yield
    except BaseException as failure:
        await _let_go(desk, order, claim, failure)
        raise
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def _keep(desk: Desk, claim: Claim) -> None:
    ttl = timedelta(seconds=desk.settings.admission_lease_sec)
    while True:
        await asyncio.sleep(ttl.total_seconds() / 3)
        try:
            async with desk.database.transaction() as tx:
                if not await leases.renew(tx, ADMISSIONS, [claim.lease], ttl=ttl):
                    return  # the last transaction will find out
        except PenstockError as away:
            raise_unless_unavailable(away)


async def _let_go(desk: Desk, order: Order, claim: Claim, failure: BaseException) -> None:
    refusal = None
    if isinstance(failure, PenstockError) and failure.kind is not Kind.BROKEN:
        refusal = {"code": failure.code.code, "details": dict(failure.details), "request": order.digest}
    with suppress(PenstockError):  # the database is away: the lease runs out by itself
        async with desk.database.transaction() as tx:
            await admission_store.release(tx, claim.lease, refusal)
