"""Everything that must still be done about an upload, by one clock: `due_at`.

An open upload is looked for in the bucket, in case its notification never came; what is found ends as if it had. When
its time is over and a last look finds nothing, it is given up. A wrong object is moved aside. A complete upload becomes
what its policy says. A row is claimed, worked on outside of any transaction while its lease is renewed, and settled by
whoever still holds it. What settles reads the row again: whatever happened to it meanwhile has set the clock itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog

from penstock.kernel import error_codes, failpoints, leases
from penstock.kernel.backoff import exponential
from penstock.kernel.db import Tx, server_time
from penstock.kernel.errors import Kind, PenstockError, reason_of
from penstock.kernel.keeping import beside, renewing
from penstock.kernel.leases import Leasable, Lease
from penstock.kernel.statemachine import Step, move
from penstock.kernel.telemetry import spanned
from penstock.uploads.direct import metrics, store
from penstock.uploads.direct.aside import move_aside, must_be_there
from penstock.uploads.direct.callback import told
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.finishing import News, Outcome, judge
from penstock.uploads.direct.looking import look
from penstock.uploads.direct.parts import let_go
from penstock.uploads.direct.ports import ObjectFacts
from penstock.uploads.direct.settings import DirectSettings
from penstock.uploads.direct.states import DIRECT_UPLOAD, DirectStatus

log = structlog.get_logger(__name__)
T = TypeVar("T")

DUE = Leasable(
    "catalog.uploads",
    "upload_id",
    ready="due_at <= now()",
    order="(status in ('pending', 'uploading')), due_at, upload_id",  # what has come waits for no crowd that has not
)
FIRST_AGAIN = timedelta(seconds=2)  # after trouble; each time twice as long
_SAME = ("status", "opened_at", "opened_count", "aside_generation", "due_at")  # what an outcome rests on


async def attend_one(desk: DirectDesk, lease: Lease) -> None:
    """Do what is due and settle it. Trouble puts it off; DB_UNAVAILABLE is the caller's to know."""
    try:
        with spanned("direct.attend", upload=str(lease.key), status=lease.row["status"]):
            await _attend(desk, lease)
        outcome = "done"
    except asyncio.CancelledError:
        with suppress(PenstockError):
            async with desk.database.transaction() as tx:
                await leases.give_back(tx, DUE, [lease])
        raise
    except Exception as trouble:  # noqa: BLE001  whatever is wrong with one upload, the others go on
        outcome = await _put_off(desk, lease, trouble)
    failpoints.reach("direct.settled")
    metrics.ATTENDED.labels(lease.row["status"], outcome).inc()


async def _attend(desk: DirectDesk, lease: Lease) -> None:
    failpoints.reach("direct.claimed")
    row = dict(lease.row)
    if row["status"] in (DirectStatus.PENDING, DirectStatus.UPLOADING):
        found = await _keeping(desk, lease, lambda: _looked(desk, row))
        failpoints.reach("direct.looked")
        await (_settle_missing(desk, lease) if found is None else _settle_found(desk, lease, found))
        return
    if row["status"] == DirectStatus.COMPLETED:
        await _keeping(desk, lease, lambda: _become(desk, row))
    elif row["aside_generation"] is not None:
        await _keeping(desk, lease, lambda: move_aside(desk, row))
    await _settle_done(desk, lease)


async def _looked(desk: DirectDesk, row: dict[str, Any]) -> ObjectFacts | None:
    """A bucket that was in use before and cannot be reached any more shall not keep an upload waiting for ever."""
    try:
        return await look(desk.bucket_of(row["bucket"]), row["object_name"])
    except PenstockError as away:
        if not desk.is_lost(row["bucket"], away):
            raise
        return None


async def _keeping(desk: DirectDesk, lease: Lease, work: Callable[[], Awaitable[T]]) -> T:
    return await beside(lambda: renewing(desk.database, DUE, lease, desk.settings.lease_seconds), work)


async def _become(desk: DirectDesk, row: dict[str, Any]) -> None:
    # Decided when it was completed, whatever has become of its policy; what becomes nothing is not due.
    becoming = desk.becomes.get("video" if row["video_id"] else "job")
    if becoming is not None:
        if (bucket := desk.bucket_of(row["bucket"])) is not desk.bucket:
            await must_be_there(bucket, row["object_name"], row["gcs_generation"])
        await becoming(row)
    failpoints.reach("direct.became")


async def _settle_found(desk: DirectDesk, lease: Lease, found: ObjectFacts) -> None:
    news = News(found, "reconciler", desk.open_bucket().reference(found))
    async with desk.database.transaction() as tx:
        if await _is_changed(tx, lease, found):
            return
        outcome, row = await judge(tx, desk.settings, news)
        await leases.settle(tx, DUE, lease, {"looks": 0})
        failpoints.reach("direct.settling")
    told(desk, news, outcome, row)
    if outcome is Outcome.COMPLETED:
        metrics.RECONCILED.inc()
        log.info("direct.reconciled", upload=str(lease.key), generation=found.generation)


async def _settle_missing(desk: DirectDesk, lease: Lease) -> None:
    """The look is the last if it began when the time was over."""
    row, settings = dict(lease.row), desk.settings
    over_at: datetime = row["opened_at"] + settings.patience
    began_at = row["leased_until"] - settings.lease_seconds
    if began_at >= over_at:
        await _keeping(desk, lease, lambda: let_go(desk, row))
        failpoints.reach("direct.let_go")
    async with desk.database.transaction() as tx:
        if await _is_changed(tx, lease):
            return
        if began_at < over_at:
            looks = row["looks"] + 1
            next_look = await server_time(tx) + min(_pause(settings, looks), max(over_at - began_at, FIRST_AGAIN))
            await leases.settle(tx, DUE, lease, {"looks": looks, "due_at": next_look})
            return
        await _give_up(tx, lease)
        failpoints.reach("direct.settling")
    metrics.EXPIRED.inc()
    log.warning("direct.session_expired", upload=str(lease.key), opened_at=row["opened_at"].isoformat())


async def _give_up(tx: Tx, lease: Lease) -> None:
    row, code = dict(lease.row), error_codes.SESSION_EXPIRED
    await leases.settle(tx, DUE, lease, {"looks": 0, "due_at": None})
    step = Step(
        str(lease.key), DirectStatus(row["status"]), DirectStatus.FAILED, by="reconciler", trigger="expired",
        payload={**store.announced(row), "error_code": code.code},
        changes={"error_code": code.code, "error_message": code.message.en, "updated_at": await server_time(tx)},
    )  # fmt: skip
    await move(tx, DIRECT_UPLOAD, step)


async def _settle_done(desk: DirectDesk, lease: Lease) -> None:
    """Nothing is left to do."""
    async with desk.database.transaction() as tx:
        if await _is_changed(tx, lease):
            return
        await leases.settle(tx, DUE, lease, {"looks": 0, "due_at": None})
        failpoints.reach("direct.settling")


async def _is_changed(tx: Tx, lease: Lease, found: ObjectFacts | None = None) -> bool:
    """Then it is free again, with the clock as it was set by whoever changed it."""
    if found is None:
        row = await store.lock(tx, lease.key)
    else:  # the order in which finishing locks
        row = await store.lock_object(tx, found.bucket, found.name)
    if row is not None and all(row[name] == lease.row[name] for name in _SAME):
        return False
    await leases.give_back(tx, DUE, [lease])
    return True


async def _put_off(desk: DirectDesk, lease: Lease, trouble: Exception) -> str:
    """Later, and each time later still: a row that nobody can serve costs a look an hour."""
    code = trouble.code if isinstance(trouble, PenstockError) else None
    if code is error_codes.LEASE_LOST:
        log.warning("direct.lease_lost", upload=str(lease.key))
        return "lost"
    if code is error_codes.DB_UNAVAILABLE:
        raise trouble
    is_away = isinstance(trouble, PenstockError) and trouble.kind is Kind.UNAVAILABLE
    looks = lease.row["looks"] + 1
    log.warning("direct.put_off", upload=str(lease.key), looks=looks, reason=reason_of(trouble), exc_info=not is_away)
    seconds = exponential(looks, first=FIRST_AGAIN.total_seconds(), most=desk.settings.look_at_most.total_seconds())
    try:
        async with desk.database.transaction() as tx:
            if not await _is_changed(tx, lease):
                later = await server_time(tx) + timedelta(seconds=seconds)
                await leases.settle(tx, DUE, lease, {"looks": looks, "due_at": later})
    except PenstockError as lost:
        if lost.code is not error_codes.LEASE_LOST:
            raise
        return "lost"
    return "away" if is_away else "failed"


def _pause(settings: DirectSettings, looks: int) -> timedelta:
    """Before the next look; each one is twice as long as the last."""
    first, most = settings.look_after.total_seconds(), settings.look_at_most.total_seconds()
    return timedelta(seconds=exponential(looks, first=first, most=max(first, most)))
