"""Going through the pages of a job: take it, claim pages, complete or fail each, put it down.

A job has one holder at a time. `pdf_jobs.hold_token` grows whenever it gets a new one, and every write of a
holder says which token it got: a worker that was paused until the job was given to another, or even to itself
again, cannot write. A page has a lease besides, so that the work on one page is done by one hand. The page's
state is the truth of what is done; a resume repeats only pages that were in hand, whatever the checkpoint says.

Every function takes the caller's transaction. Work on a page itself happens outside: claim → work → complete.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from penstock.documents import store_pages
from penstock.documents.states import JOB, PAGE, JobStatus, PageStatus
from penstock.kernel import error_codes, failpoints, leases
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event
from penstock.kernel.leases import Leasable, Lease
from penstock.kernel.statemachine import Batch, Step, move, move_many
from penstock.kernel.workers import forget_job, note_job


@dataclass(frozen=True, slots=True)
class Hold:
    """One worker's right to write to a job."""

    job_id: UUID
    worker_id: str
    token: int
    merchant_id: str

    @property
    def topic(self) -> str:
        return f"job:{self.job_id}"


@dataclass(frozen=True, slots=True)
class HeldPage:
    """One page in hand."""

    hold: Hold
    number: int
    lease: Lease

    @property
    def row(self) -> Mapping[str, Any]:
        return self.lease.row


@dataclass(frozen=True, slots=True)
class Done:
    """A page is done. `write` stores what was found, in the transaction that completes the page."""

    skus_found: int
    confidence: float | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)  # of the page's row
    write: Callable[[Tx], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A page could not be done this time."""

    reason: str


async def jobs_for(tx: Tx, worker_id: str) -> dict[UUID, bool]:
    """The jobs that are this worker's, whether it knows of them yet or not, and whether pages are left to do."""
    return {row["job_id"]: row["unfinished"] for row in await store_pages.assigned_jobs(tx, worker_id)}


async def take_next(tx: Tx, worker_id: str) -> Hold | None:
    """Take the job that has waited longest, if there is one."""
    job_id = await store_pages.oldest_waiting_job(tx)
    return await take(tx, job_id, worker_id) if job_id else None


async def take(tx: Tx, job_id: UUID, worker_id: str) -> Hold:
    """An evaluated job becomes this worker's, and its pages are queued."""
    job = await _locked(tx, job_id)
    changes = {"worker_id": worker_id, "process_started_at": job["now"], "updated_at": job["now"]}
    await move(
        tx,
        JOB,
        Step(
            str(job_id), JobStatus.EVALUATED, JobStatus.PROCESSING, by="pipeline", trigger="taken",
            payload={"worker_id": worker_id}, changes=changes, topics=(f"job:{job_id}",),
        ),
    )  # fmt: skip
    hold = await _hold(tx, job, worker_id)
    await queue_pages(tx, hold)
    return hold


async def take_up(tx: Tx, job_id: UUID, worker_id: str) -> Hold:
    """Begin, or begin again, a job that was given to this worker; nobody holds its pages any more.

    A job that was orphaned before it was judged has no route: its pages wait until somebody has chosen one.
    """
    job = await _locked(tx, job_id)
    if job["status"] != JobStatus.PROCESSING or job["worker_id"] != worker_id:
        raise _lost(job_id)
    hold = await _hold(tx, job, worker_id)
    await store_pages.free_pages(tx, job_id)
    if job["route"]:
        await queue_pages(tx, hold)
    return hold


async def queue_pages(tx: Tx, hold: Hold) -> int:
    """Every page that is nobody's yet is for the machine; returns how many there were."""
    waiting = await store_pages.pages_in(tx, hold.job_id, PageStatus.PENDING)
    return await _move_pages(tx, hold, waiting, PageStatus.PENDING, PageStatus.AI_QUEUED)


async def claim_pages(tx: Tx, hold: Hold, *, ttl: timedelta, limit: int = 1) -> list[HeldPage]:
    """The next pages in order, those that failed before last; pages that a dead worker had in hand come again."""
    await assert_holds(tx, hold)
    claimed = await leases.claim(tx, _free_pages_of(hold.job_id), owner=hold.worker_id, ttl=ttl, limit=limit)
    fresh = [lease.key for lease in claimed if lease.row["status"] == PageStatus.AI_QUEUED]
    await _move_pages(tx, hold, fresh, PageStatus.AI_QUEUED, PageStatus.AI_PROCESSING)
    await store_pages.note_claimed(tx, [lease.key for lease in claimed], hold.worker_id)
    pages = [HeldPage(hold, lease.row["page_number"], lease) for lease in claimed]
    return sorted(pages, key=lambda page: (page.row["retry_count"], page.number))


async def renew(tx: Tx, hold: Hold, pages: Sequence[HeldPage], *, ttl: timedelta) -> None:
    """Hold on to pages for longer; raises LEASE_LOST if the job or one of them is no longer ours."""
    await assert_holds(tx, hold)
    kept = await leases.renew(tx, PAGES, [page.lease for page in pages], ttl=ttl)
    if len(kept) < len(pages):
        raise _lost(hold.job_id)


async def complete(tx: Tx, page: HeldPage, done: Done) -> None:
    """Page, findings and event in one transaction; raises LEASE_LOST, writing nothing, if it is not ours to do."""
    now = await assert_holds(tx, page.hold)
    found = {"processed_by": page.hold.worker_id, "page_confidence": done.confidence, **done.columns}
    await leases.settle(tx, PAGES, page.lease, {**found, "updated_at": now})
    if done.write is not None:
        await done.write(tx)
    failpoints.reach("page.settled")
    facts = {"skus_found": done.skus_found, "confidence": done.confidence}
    await _move_page(tx, page, PageStatus.AI_PROCESSING, PageStatus.AI_COMPLETED, facts)


async def fail(tx: Tx, page: HeldPage, failed: Failed, *, most_failures: int) -> PageStatus:
    """Again, or a person's turn when it has failed that often; returns which."""
    now = await assert_holds(tx, page.hold)
    failures = page.row["retry_count"] + 1
    await leases.settle(tx, PAGES, page.lease, {"retry_count": failures, "updated_at": now})
    facts = {"reason": failed.reason}
    await _move_page(tx, page, PageStatus.AI_PROCESSING, PageStatus.AI_FAILED, facts)
    after = PageStatus.AI_QUEUED if failures < most_failures else PageStatus.HUMAN_QUEUED
    await _move_page(tx, page, PageStatus.AI_FAILED, after, facts)
    return after


async def put_down(tx: Tx, hold: Hold) -> None:
    """This worker does nothing for the job any more."""
    await forget_job(tx, hold.worker_id, hold.job_id)


async def assert_holds(tx: Tx, hold: Hold) -> datetime:
    """Fence: nobody else can have, cancel or orphan the job before this transaction ends, or LEASE_LOST."""
    now = await store_pages.time_if_held(tx, hold.job_id, hold.worker_id, hold.token)
    if now is None:
        raise _lost(hold.job_id)
    return now


PAGES = Leasable("pages", "id", ready="status in ('AI_QUEUED', 'AI_PROCESSING')", order="page_number")


def _free_pages_of(job_id: UUID) -> Leasable:
    return Leasable("pages", "id", ready=f"{PAGES.ready} and job_id = '{job_id}'", order="retry_count, page_number")


async def _locked(tx: Tx, job_id: UUID) -> dict[str, Any]:
    job = await store_pages.locked_job(tx, job_id)
    if job is None:
        raise PenstockError(error_codes.JOB_NOT_FOUND, job_id=str(job_id))
    return job


async def _hold(tx: Tx, job: Mapping[str, Any], worker_id: str) -> Hold:
    token = await store_pages.take_hold(tx, job["job_id"], worker_id)
    if not await note_job(tx, worker_id, job["job_id"]):
        raise PenstockError(error_codes.WORKER_NOT_ALIVE, worker_id=worker_id)
    return Hold(job["job_id"], worker_id, token, job["merchant_id"])


def _lost(job_id: UUID) -> PenstockError:
    return PenstockError(error_codes.LEASE_LOST, table="pdf_jobs", key=str(job_id))


async def _move_pages(tx: Tx, hold: Hold, ids: list[int], source: PageStatus, target: PageStatus) -> int:
    now = await assert_holds(tx, hold)
    about = Event(
        f"job.pages_{target.lower()}", "job", str(hold.job_id), merchant_id=hold.merchant_id, topics=(hold.topic,)
    )
    batch = Batch(
        ids, source, target, by="pipeline", trigger="pages_moved", event=about, listed_as="pages",
        facts={"page_no": "page_number"}, changes={"updated_at": now}, operator=hold.worker_id,
    )  # fmt: skip
    return len(await move_many(tx, PAGE, batch))


async def _move_page(tx: Tx, page: HeldPage, source: PageStatus, target: PageStatus, facts: Mapping[str, Any]) -> None:
    """All that is told of one job's pages stays in order, hence the job's order key."""
    payload = {"job_id": str(page.hold.job_id), "page_no": page.number, "status": str(target), **facts}
    await move(
        tx,
        PAGE,
        Step(
            str(page.lease.key), source, target, by="pipeline", trigger="page_worked", operator=page.hold.worker_id,
            merchant_id=page.hold.merchant_id, payload=payload, topics=(page.hold.topic,), order_key=page.hold.topic,
        ),
    )  # fmt: skip
