"""A PDF that a phone sent straight to the bucket becomes a job, exactly as one that came by tus.

  fetch → take in as a finished upload, whose id follows from that of the direct upload → admit → note the job

Every step finds what an earlier attempt has done: killed anywhere, a repeat ends in the same one job. A refused file
leaves its REJECTED job, and a file that the merchant has sent before leads to the earlier job: both are ends. What
may be better another time raises.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from uuid import UUID

import structlog

from penstock.documents import store
from penstock.documents.admit import admit
from penstock.documents.desk import Desk
from penstock.documents.order import Order
from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import ErrorCode, Kind, PenstockError
from penstock.kernel.failpoints import reach
from penstock.kernel.identity import Caller, Role
from penstock.uploads.direct import store as direct
from penstock.uploads.direct.fetching import fetched
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.tus import Upload, UploadStatus, clean_name, find_upload

log = structlog.get_logger(__name__)


async def become_job(desk: Desk, bucket: Bucket, row: Mapping[str, Any]) -> None:
    """For a completed upload."""
    async with desk.database.transaction() as tx:
        current = await direct.find(tx, row["upload_id"])
        upload_id, upload = await _upload_of(tx, row["upload_id"])
        job = await store.job_of_upload(tx, upload_id)
    if current is None or current["job_id"] is not None:
        return
    caller = Caller(row["user_name"], row["merchant_id"], Role.UPLOADER)
    job_id, fault = None, None
    if job is None and not _is_here(desk, upload_id, upload):
        fault = await _take_in(desk, bucket, row, (caller, upload_id))
    if fault is None:
        job_id, fault = await _admitted(desk, Order(upload_id=upload_id, caller=caller, owner=caller))
    reach("direct.admitted")
    await _note(desk, row, job_id, fault)
    if fault is error_codes.FILE_HASH_DUPLICATE:  # nobody asks for these bytes again
        await desk.uploads.cancel(upload_id, caller)


async def _upload_of(tx: Tx, direct_id: UUID) -> tuple[str, Upload | None]:
    """The id, and what is there. One that expired while nobody could admit it is followed by another."""
    attempt = 0
    while True:
        digest = blake2b(f"{direct_id}/{attempt}".encode(), digest_size=16).digest()
        upload_id = f"upl_{urlsafe_b64encode(digest).decode()[:21]}"
        upload = await find_upload(tx, upload_id)
        if upload is None or upload.status is not UploadStatus.EXPIRED:
            return upload_id, upload
        attempt += 1


def _is_here(desk: Desk, upload_id: str, upload: Upload | None) -> bool:
    """A row without its file is one of another directory, or lost it: the bucket has it still."""
    if upload is None:
        return False
    if upload.status is not UploadStatus.FINISHED:
        return True  # ended: `admit` says how
    path = desk.uploads.path(upload_id)
    return path.is_file() and path.stat().st_size == upload.received


async def _take_in(desk: Desk, bucket: Bucket, row: Mapping[str, Any], whose: tuple[Caller, str]) -> ErrorCode | None:
    """Why it cannot become a job, if so."""
    caller, upload_id = whose
    if row["size_bytes"] > desk.uploads.settings.largest:
        return error_codes.FILE_SIZE_EXCEEDED
    try:
        async with fetched(bucket, row, desk.uploads.directory) as path:
            reach("direct.fetched")
            await desk.uploads.take_in(caller, upload_id, _name(row["original_filename"]), path)
    except PenstockError as failure:
        if failure.code is not error_codes.NOT_FOUND:
            raise
        return error_codes.UPLOAD_GONE
    reach("direct.taken_in")
    return None


def _name(said: str) -> str:
    """As tus takes it; phones leave the ending out."""
    name = clean_name(said) or "document"
    return name if name.lower().endswith(".pdf") else f"{name[-251:]}.pdf"


async def _admitted(desk: Desk, order: Order) -> tuple[UUID | None, ErrorCode | None]:
    """The job, and why it is not one to work on."""
    try:
        job = await admit(desk, order)
    except PenstockError as failure:
        if job_id := failure.details.get("job_id"):  # refused, or sent before
            return UUID(job_id), failure.code
        if failure.code is error_codes.UPLOAD_GONE and failure.details.get("status") == UploadStatus.CANCELLED:
            return None, failure.code
        if failure.kind in (Kind.UNAVAILABLE, Kind.BROKEN):
            raise
        # Somebody else is at it, or the bytes went meanwhile: another time there is a job, or they are fetched again.
        raise PenstockError(error_codes.STORE_UNAVAILABLE, reason=failure.code.code) from failure
    return job["job_id"], None


async def _note(desk: Desk, row: Mapping[str, Any], job_id: UUID | None, fault: ErrorCode | None) -> None:
    async with desk.database.transaction() as tx:
        await direct.note_job(tx, row["upload_id"], job_id, fault)
    log.info("direct.became_job", upload=str(row["upload_id"]), job=str(job_id), code=fault and fault.code)
    reach("direct.noted")
