"""A document is submitted, strictly in this order: bytes in the store → row → run state and job.

Killed in between: bytes without a row are content that the next submission of the same file finds again; a row without
run state or job is found by the sweep within seconds. Nothing is answered before the row is committed.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from penstock import documents
from penstock.extraction import content, rule_content, rules, runstate, store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.media import HEAD, media_type_of
from penstock.extraction.ports import Rule
from penstock.extraction.queue_places import take_place
from penstock.extraction.states import TASK, TaskStatus
from penstock.kernel import error_codes, failpoints, json
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.objectstore import check_key
from penstock.kernel.statemachine import Step, enter_query
from penstock.uploads.tus import finished_upload

_MiB = 1 << 20


@dataclass(frozen=True, slots=True)
class Submission:
    """What somebody wants to be read: exactly one of the three sources."""

    caller: Caller
    upload_id: str | None = None
    object_key: str | None = None
    job_id: UUID | None = None
    rule_id: int | None = None
    idempotency_key: str | None = None

    @property
    def source(self) -> dict[str, str]:
        given = {"upload_id": self.upload_id, "object_key": self.object_key, "job_id": self.job_id}
        return {name: str(value) for name, value in given.items() if value is not None}

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dump_bytes([self.source, self.rule_id])).hexdigest()


@dataclass(frozen=True, slots=True)
class _Found:
    """The file, in the store."""

    key: str
    filename: str
    media_type: str
    size: int


async def submit(desk: EtlDesk, given: Submission) -> dict[str, Any]:
    """The task's row. The same key with the same request gives the same task."""
    if len(given.source) != 1:
        raise PenstockError(error_codes.REQUEST_INVALID, reason="give exactly one of upload_id, object_key and job_id")
    earlier = await _earlier(desk, given)
    if earlier is not None:
        return earlier
    async with desk.database.statement() as tx:
        rule = await rules.rule_for(tx, given.rule_id, given.caller, desk.settings)
        task_id = await store.reserve_id(tx, desk.settings.queue_size)
    if task_id is None:
        raise PenstockError(error_codes.ETL_QUEUE_FULL, size=desk.settings.queue_size, retry_after=30)
    found = await _locate(desk, given)
    failpoints.reach("etl.placed")
    try:
        row = await _insert(desk, given, _columns(desk, given, rule, found) | {"task_id": task_id})
    except psycopg.errors.UniqueViolation:  # the same key at the same time
        again = await _earlier(desk, given)
        if again is None:
            raise
        return again
    failpoints.reach("etl.inserted")
    await desk.place(runstate.of_row(row))
    failpoints.reach("etl.enqueued")
    return row


async def _earlier(desk: EtlDesk, given: Submission) -> dict[str, Any] | None:
    if given.idempotency_key is None:
        return None
    async with desk.database.transaction() as tx:
        row = await store.by_key(tx, given.caller.merchant_id, given.idempotency_key)
    if row is not None and row["request_hash"] != given.digest:
        raise PenstockError(error_codes.IDEMPOTENCY_KEY_REUSED, task_id=row["task_id"])
    return row


def _columns(desk: EtlDesk, given: Submission, rule: Rule, found: _Found) -> dict[str, Any]:
    return {
        "merchant_id": given.caller.merchant_id,
        "user_id": given.caller.user_id,
        "rule_id": rule.rule_id,
        "rule_version": rule.version,
        "rule": json.dumps(rule_content.snapshot(rule)),
        "source": json.dumps(given.source),
        "source_key": found.key,
        "filename": found.filename,
        "media_type": found.media_type,
        "size_bytes": found.size,
        "provider": desk.settings.provider,
        "queue": desk.settings.arq_queue_name,
        "request_hash": given.digest,
        "idempotency_key": given.idempotency_key,
    }


async def _insert(desk: EtlDesk, given: Submission, columns: Mapping[str, Any]) -> dict[str, Any]:
    """One statement. Where the queue was full, the reason is asked for, and with it a place that is free by now."""
    caller, limits = given.caller, desk.settings
    step = Step(
        str(columns["task_id"]), None, TaskStatus.PENDING, by="api", trigger="submitted", operator=caller.user_id,
        merchant_id=caller.merchant_id, payload={"filename": columns["filename"]},
    )  # fmt: skip
    insert = enter_query(TASK, step, *store.task_insert(columns, limits.queue_size, limits.merchant_places))
    try:
        async with desk.database.statement() as tx:
            return await store.insert_task(tx, insert)
    except psycopg.errors.NotNullViolation:
        async with desk.database.transaction() as tx:
            await take_place(tx, caller.merchant_id, limits)
            return await store.insert_task(tx, insert)


# Sources ---------------------------------------------------------------------------------------------------------
async def _locate(desk: EtlDesk, given: Submission) -> _Found:
    if given.upload_id is not None:
        return await _from_upload(desk, given.upload_id, given.caller)
    if given.job_id is not None:
        async with desk.database.transaction() as tx:
            job = await documents.source_of(tx, given.job_id)
        if job is None or not given.caller.sees(job["merchant_id"]) or job["source_key"] is None:
            raise PenstockError(error_codes.ETL_SOURCE_NOT_FOUND, job_id=str(given.job_id))
        return await _from_object(desk, job["source_key"], job["source_file"])
    key = check_key(given.object_key or "")
    own = f"inbox/{given.caller.merchant_id}/"
    is_own = key.startswith(own) and "/" not in given.caller.merchant_id  # else it would be within another's folder
    if not given.caller.sees_all and not is_own:  # others' objects are not even known to exist
        raise PenstockError(error_codes.ETL_SOURCE_NOT_FOUND, object_key=key, allowed=own)
    return await _from_object(desk, key, key.rsplit("/", 1)[-1])


async def _from_upload(desk: EtlDesk, upload_id: str, caller: Caller) -> _Found:
    async with desk.database.transaction() as tx:
        upload = await finished_upload(tx, upload_id, caller.merchant_id, desk.uploads)
    _check_size(desk, upload.size)
    try:
        with upload.path.open("rb") as file:
            media_type = media_type_of(file.read(HEAD), upload.filename)
        stored = await content.keep(desk, caller.merchant_id, upload.path, upload.size)
    except FileNotFoundError:
        raise PenstockError(error_codes.UPLOAD_GONE, upload_id=upload_id) from None
    return _Found(stored.key, upload.filename, media_type, stored.size)


async def _from_object(desk: EtlDesk, key: str, filename: str) -> _Found:
    try:
        size, head = await desk.store.peek(key, HEAD)
    except PenstockError as missing:
        if missing.code is error_codes.NOT_FOUND:
            raise PenstockError(error_codes.ETL_SOURCE_NOT_FOUND, object_key=key) from None
        raise
    _check_size(desk, size)
    return _Found(key, filename, media_type_of(head, filename), size)


def _check_size(desk: EtlDesk, size: int) -> None:
    if size > desk.settings.max_file_mb * _MiB:
        raise PenstockError(error_codes.ETL_FILE_TOO_LARGE, size=size, largest=desk.settings.max_file_mb * _MiB)
