"""An upload becomes a job, strictly in this order:

  claim the admission → inspect → freeze the profile → prescan → SHA-256 → room → duplicates → place the file →
  one transaction: job, pages, history, events, upload, key → tell Redis where the job is

A file that is not one we take becomes a REJECTED job, so that refusals can be seen and counted; our own trouble
leaves none. The file is placed before the transaction, under an id that the claim has noted: whatever happens in
between, either the job has its file, or there is no job and the file is removed, by us or by the sweep.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from typing import Any, NoReturn

import structlog

from penstock.documents import admission_store, metrics, store
from penstock.documents.admission_claim import Claim, claim_or_outcome, holding
from penstock.documents.admission_write import Newcomer, write_job, write_rejection
from penstock.documents.desk import Desk, source_key
from penstock.documents.order import Order
from penstock.documents.states import JobStatus
from penstock.kernel import error_codes, failpoints
from penstock.kernel.disk import sha256_of
from penstock.kernel.errors import PenstockError
from penstock.kernel.redis import RedisTrouble
from penstock.pdf import Issue, PrescanRules, judge_pages
from penstock.profiles import freeze

log = structlog.get_logger(__name__)

_MAPPING_TTL = timedelta(days=7)


async def admit(desk: Desk, order: Order) -> dict[str, Any]:
    """The job's row. A refused file raises its first reason, every time it is asked for."""
    while True:
        found = await claim_or_outcome(desk, order)
        if isinstance(found, dict):
            return _unless_rejected(found)
        try:
            turn = desk.admitting.of(order.tenant, desk.settings.admissions_per_merchant)
            async with holding(desk, order, found), turn:
                job = await _make(desk, order, found)
        except PenstockError as failure:
            if failure.code is not error_codes.LEASE_LOST:
                raise
            log.warning("admission.taken_over", upload=order.upload_id)
            continue
        except FileNotFoundError:
            await _unless_taken_over(desk, order)
            continue
        failpoints.reach("admission.committed")
        await _after(desk, job)
        return _unless_rejected(job)


async def _unless_taken_over(desk: Desk, order: Order) -> None:
    """The bytes go when somebody has made the job; gone without a job they are lost."""
    async with desk.database.transaction() as tx:
        job = await store.job_of_upload(tx, order.upload_id)
    if job is None:
        raise PenstockError(error_codes.UPLOAD_GONE, upload_id=order.upload_id)


async def _make(desk: Desk, order: Order, claim: Claim) -> dict[str, Any]:
    path, tenant = claim.upload.path, order.tenant
    failpoints.reach("admission.claimed")
    with metrics.CHECK_SECONDS.time():
        inspection = await desk.examiner.inspect(path, tenant=tenant)
    failpoints.reach("admission.inspected")
    pages = inspection.page_count or 0
    if inspection.issues:
        return await _reject(desk, order, claim, inspection.issues, pages)
    async with desk.database.transaction() as tx:
        profile = await freeze(tx, order.category, order.industry)
    rules = PrescanRules(**asdict(profile.prescan_rules))
    scan = await desk.examiner.prescan(path, pages, rules, tenant=tenant)
    if scan.issues:
        return await _reject(desk, order, claim, scan.issues, pages)
    digest = await asyncio.to_thread(sha256_of, path)
    await _check_room(desk, claim.upload.size)
    await _check_duplicate(desk, order, digest)
    key = source_key(claim.job_id)
    await desk.store.put_file(key, path)
    failpoints.reach("admission.placed")
    newcomer = Newcomer(digest, key, profile, judge_pages(scan.pages, rules, inspection.images_in_patterns), scan.pages)
    try:
        async with desk.database.transaction() as tx:
            job = await write_job(tx, desk, order, claim, newcomer)
            failpoints.reach("admission.written")
    except BaseException:
        await _undo(desk, claim, key)
        raise
    return job


async def _reject(desk: Desk, order: Order, claim: Claim, issues: Sequence[Issue], pages: int) -> dict[str, Any]:
    digest = await asyncio.to_thread(sha256_of, claim.upload.path)
    found = [{"code": each.code, "place": each.place, "detail": each.detail} for each in issues]
    async with desk.database.transaction() as tx:
        job = await write_rejection(tx, desk, order, claim, (digest, pages, found))
        failpoints.reach("admission.rejected")
    metrics.rejected(job["error_codes"])
    return job


def _unless_rejected(job: dict[str, Any]) -> dict[str, Any]:
    """A job that was refused at the door answers as it did the first time."""
    if job["status"] == JobStatus.REJECTED and job["error_codes"]:
        _refuse(job)
    return job


def _refuse(job: dict[str, Any]) -> NoReturn:
    first = error_codes.REGISTRY[job["error_codes"][0]]
    issues = (job["processing_trace"] or {}).get("issues", [])
    raise PenstockError(first, job_id=str(job["job_id"]), issues=issues)


async def _check_room(desk: Desk, size: int) -> None:
    free = await desk.store.free_bytes()
    if free is not None and free < 2 * size:
        raise PenstockError(error_codes.DISK_FULL, free=free, needed=2 * size)


async def _check_duplicate(desk: Desk, order: Order, digest: str) -> None:
    """Before anything is written; the last transaction asks again, under a lock."""
    if order.allow_duplicate:
        return
    async with desk.database.transaction() as tx:
        earlier = await store.earlier_job(tx, order.owner.merchant_id, digest, order.upload_id)
    if earlier is not None:
        raise PenstockError(error_codes.FILE_HASH_DUPLICATE, job_id=str(earlier))


async def _undo(desk: Desk, claim: Claim, key: str) -> None:
    """Remove the file unless the job is there after all: a commit whose answer was lost may have happened.

    Waiting for the row's lock outlasts a commit that is still under way. With the database away nothing can
    be known, and the sweep decides later.
    """
    with suppress(PenstockError):
        async with desk.database.transaction() as tx:
            await admission_store.lock(tx, claim.upload.upload_id)
            exists = await store.jobs_that_exist(tx, [claim.job_id])
        if not exists:
            await desk.store.delete(key)


async def _after(desk: Desk, job: dict[str, Any]) -> None:
    """What is only convenient: the answer does not depend on it, and others make up for it if we die here."""
    metrics.CREATED.labels(job["status"]).inc()
    log.info("job.created", job=str(job["job_id"]), status=job["status"], pages=job["total_pages"])
    try:
        await desk.redis.set(desk.keys.job_worker(str(job["job_id"])), desk.worker_id, ex=_MAPPING_TTL)
    except RedisTrouble:
        log.info("job.mapping_lost", job=str(job["job_id"]))  # a cache: the row knows it too
    try:
        await desk.uploads.discard(job["upload_id"])
    except OSError as wrong:
        log.warning("upload.not_removed", upload=job["upload_id"], reason=str(wrong))  # the hourly sweep tries again
