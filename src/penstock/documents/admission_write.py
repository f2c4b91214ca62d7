"""The one transaction that makes a job of an upload, accepted or rejected."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from penstock.documents import admission_store, events, store
from penstock.documents.admission_claim import Claim
from penstock.documents.admission_store import ADMISSIONS
from penstock.documents.desk import Desk, folder_of
from penstock.documents.order import Order
from penstock.documents.states import JOB, PAGE, JobStatus, PageStatus
from penstock.kernel import error_codes, leases
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Crowd, Step, enter, enter_many
from penstock.pdf import PageMetrics, Prescan
from penstock.profiles import Profile
from penstock.uploads.tus import admit_upload


@dataclass(frozen=True, slots=True)
class Newcomer:
    """What was found out about a file that passed."""

    file_hash: str
    source_key: str
    profile: Profile
    prescan: Prescan
    pages: Sequence[PageMetrics]


async def write_job(tx: Tx, desk: Desk, order: Order, claim: Claim, newcomer: Newcomer) -> dict[str, Any]:
    await leases.assert_held(tx, ADMISSIONS, claim.lease)
    await _refuse_duplicate(tx, order, newcomer.file_hash)
    prescan = newcomer.prescan
    found: dict[str, Any] = msgspec.to_builtins(prescan)
    columns = _common(desk, order, claim) | {
        "status": JobStatus.DEGRADED_HUMAN if prescan.all_blank else JobStatus.UPLOADED,
        "route": "HUMAN_ALL" if prescan.all_blank else None,
        "degrade_reason": "prescan_reject" if prescan.all_blank else None,
        "file_hash": newcomer.file_hash,
        "total_pages": len(newcomer.pages),
        "blank_pages": prescan.blank_pages,
        "source_key": newcomer.source_key,
        "output_base_url": f"{desk.store_url}/{folder_of(claim.job_id)}/",
        "profile_id": newcomer.profile.profile_id,
        "frozen_config_version": newcomer.profile.config_version,
        "prescan": Jsonb(found),
    }
    job = await store.insert_job(tx, columns)
    told = {"job_id": str(claim.job_id), "total_pages": len(newcomer.pages), "prescan": found}
    if prescan.all_blank:
        told |= {"route_hint": "HUMAN_ALL", "reason": "prescan_reject", "page_no": None}
    await enter(tx, JOB, _step(order, job, told))
    await _write_pages(tx, job, newcomer)
    await _finish(tx, order, claim)
    return job


async def write_rejection(
    tx: Tx, desk: Desk, order: Order, claim: Claim, found: tuple[str, int, list[dict[str, Any]]]
) -> dict[str, Any]:
    """`found` is the file's hash, its pages (0: unknown) and every issue."""
    file_hash, pages, issues = found
    codes = list(dict.fromkeys(issue["code"] for issue in issues))
    first = error_codes.REGISTRY[codes[0]]
    await leases.assert_held(tx, ADMISSIONS, claim.lease)
    columns = _common(desk, order, claim) | {
        "status": JobStatus.REJECTED,
        "file_hash": file_hash,
        "total_pages": pages,
        "error_message": first.message.en,
        "error_codes": codes,
        "processing_trace": Jsonb({"issues": issues}),
    }
    job = await store.insert_job(tx, columns)
    await enter(tx, JOB, _step(order, job, events.failure(claim.job_id, first, error_codes=codes)))
    await _finish(tx, order, claim)
    return job


def _common(desk: Desk, order: Order, claim: Claim) -> dict[str, Any]:
    return {
        "job_id": claim.job_id,
        "source_file": claim.upload.filename,
        "merchant_id": order.owner.merchant_id,
        "category": order.category,
        "industry": order.industry,
        "uploaded_by": order.caller.user_id,
        "worker_id": desk.worker_id,
        "upload_id": order.upload_id,
        "file_size": claim.upload.size,
    }


def _step(order: Order, job: Mapping[str, Any], payload: Mapping[str, Any]) -> Step:
    """Makes the step that begins a job. Only dashboards hear of it: whoever follows the job begins with its state."""
    return Step(
        str(job["job_id"]),
        None,
        JobStatus(job["status"]),
        by="gateway",
        trigger="upload",
        operator=order.caller.user_id,
        merchant_id=job["merchant_id"],
        payload=payload,
        order_key=events.topic_of(job["job_id"]),
    )


async def _refuse_duplicate(tx: Tx, order: Order, file_hash: str) -> None:
    """Of two uploads of one content that come together one is first: the lock decides."""
    if order.allow_duplicate:
        return
    await store.lock_content(tx, order.owner.merchant_id, file_hash)
    earlier = await store.earlier_job(tx, order.owner.merchant_id, file_hash, order.upload_id)
    if earlier is not None:
        raise PenstockError(error_codes.FILE_HASH_DUPLICATE, job_id=str(earlier))


async def _write_pages(tx: Tx, job: Mapping[str, Any], newcomer: Newcomer) -> None:
    blank = set(newcomer.prescan.blank_pages)
    statuses = [PageStatus.BLANK if n in blank else PageStatus.PENDING for n in range(1, len(newcomer.pages) + 1)]
    rows = await store.insert_pages(tx, job["job_id"], statuses, newcomer.pages)
    crowds: dict[PageStatus, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        crowds[PageStatus(row["status"])][str(row["id"])] = {"page_no": row["page_number"], "status": row["status"]}
    topic = events.topic_of(job["job_id"])
    for status, members in crowds.items():
        crowd = Crowd(
            status, "gateway", "prescan", "job", str(job["job_id"]), members, job["merchant_id"], (topic,), topic
        )
        await enter_many(tx, PAGE, crowd)


async def _finish(tx: Tx, order: Order, claim: Claim) -> None:
    await admit_upload(tx, order.upload_id, claim.job_id, order.caller.user_id)
    if order.idempotency_key is not None:
        await store.bind_key(tx, order.owner.merchant_id, order.idempotency_key, claim.job_id)
    await admission_store.release(tx, claim.lease)
