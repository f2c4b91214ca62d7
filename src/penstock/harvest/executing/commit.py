"""One batch, one transaction: the records, what was quarantined, the batch with its evidence, the run's position, the
cursor's event and value and, with the last batch, the end of the task. All of it or nothing.

Killed before the commit: the request is made again, nothing was written. Killed after it: the next run begins behind
it. The transaction begins by locking the task's row with the token of our lease, so an executor that was paused, and
whose task has gone to another, cannot write.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from penstock.harvest import cursors, records
from penstock.harvest.calling import Fetched
from penstock.harvest.cursors import Closing
from penstock.harvest.executing import settle, store
from penstock.harvest.executing.claim import TASKS
from penstock.harvest.executing.clocks import closable
from penstock.harvest.executing.position import Ask, Phase, Position
from penstock.harvest.executing.work import Work
from penstock.harvest.page import Fault, FaultKind, Page
from penstock.harvest.records import Counts, Place
from penstock.harvest.slices import Dimension, Span
from penstock.harvest.spec import Operation, PageType
from penstock.harvest.states import RunStatus, TaskStatus
from penstock.kernel import failpoints, json, leases
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError, reason_of

_positions = msgspec.json.Encoder()
_DONE = settle.Ending(RunStatus.SUCCEEDED, TaskStatus.SUCCEEDED, "finished")


@dataclass(frozen=True, slots=True)
class Batch:
    """One answered request."""

    number: int
    ask: Ask
    before: Position
    after: Position
    fetched: Fetched[Page]
    page: Page
    ids_hash: bytes | None
    remarks: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One id whose details the source refuses."""

    number: int
    provider_id: str
    after: Position
    failure: PenstockError


async def store_batch(tx: Tx, work: Work, batch: Batch, stats: "RunStats") -> Counts:
    """Everything that this answer changes. The caller's transaction holds nothing else."""
    await leases.assert_held(tx, TASKS, work.held.lease)
    counts = await _store_records(tx, work, batch)
    batch_id = await store.insert_batch(tx, batch_row(work, batch, counts))
    failpoints.reach("harvest.batch_written")
    stats.add(batch, counts)
    await store.note_progress(tx, work.held.run_id, _positions.encode(batch.after).decode(), stats.stored())
    await _advance(tx, work, batch, batch_id)
    if batch.after.is_finished:
        await settle.end(tx, work.held, _DONE)
    return counts


async def store_refusal(tx: Tx, work: Work, refusal: "Refusal", stats: "RunStats") -> None:
    """An id that the source refuses by itself goes to quarantine, and the run goes on behind it."""
    await leases.assert_held(tx, TASKS, work.held.lease)
    details = dict(refusal.failure.details)
    fault = Fault(0, FaultKind.NO_DETAIL, reason_of(refusal.failure), b"", refusal.provider_id)
    request = (details.get("evidence") or {}).get("request") or {}
    place = _place(work, refusal.number, Phase.DETAIL)
    await records.quarantine(tx, place, [fault], request, bytes.decode)
    await records.mark_absent(tx, place, [fault])
    error = {"code": refusal.failure.code.code, "details": details}
    batch_id = await store.insert_batch(tx, failed_row(work, refusal.number, error, status="SKIPPED"))
    stats.sums["failed"] += 1
    await store.note_progress(tx, work.held.run_id, _positions.encode(refusal.after).decode(), stats.stored())
    if refusal.after.is_finished:
        await close_slice(tx, work, Closing(work.lineage(batch_id)), refusal.after)
        await settle.end(tx, work.held, _DONE)


def _place(work: Work, number: int, phase: Phase) -> Place:
    """Who gave the item says what holds between equal ones; either of the two may ask for announcements."""
    spec, read = work.spec, work.details if phase is Phase.DETAIL else work.spec
    guesses_time = spec.operation is Operation.UPDATE and read.response.updated_at_from == "WINDOW"
    return Place(
        spec.provenance_code, spec.endpoint_name, work.row["expr_proto_hash"], work.held.run_id, number, spec.operation,
        read.response.on_equal, spec.mapping.sink or read.mapping.sink, guesses_time,
    )  # fmt: skip


async def _store_records(tx: Tx, work: Work, batch: Batch) -> Counts:
    page, place = batch.page, _place(work, batch.number, batch.ask.phase)
    counts = await records.upsert(tx, place, page) if page.bodies else Counts(0, 0, 0)
    if page.faults:  # after the upsert, which finds what PostgreSQL cannot hold
        await records.quarantine(tx, place, page.faults, batch.fetched.evidence["request"], batch.fetched.mask.sample)
        await records.mark_absent(tx, place, page.faults)
    return counts


async def close_slice(tx: Tx, work: Work, closing: Closing, position: Position) -> None:
    """Everything of the slice is stored. Pages alone say nothing about time: there is nothing to close."""
    bounds = work.course.slice.bounds
    if bounds.time:
        await _close_window(tx, work, bounds.time.span, closing, position)
    elif bounds.id:
        await cursors.close_positions(tx, work.cursor, bounds.id, closing)


async def _close_window(tx: Tx, work: Work, span: Span, closing: Closing, position: Position) -> None:
    part = closable(span, position.safe_to)
    if part is not None:
        await cursors.close_span(tx, work.cursor, part, closing)


async def _advance(tx: Tx, work: Work, batch: Batch, batch_id: int) -> None:
    """What this batch completes is closed; whether that moves the cursor is for the cursor to say."""
    closing = Closing(work.lineage(batch_id), max(batch.page.updated, default=None), batch.remarks or None)
    if work.course.slice.dimension is Dimension.SCAN:
        await _move_scan(tx, work, batch, closing)
    elif batch.after.is_finished:
        await close_slice(tx, work, closing, batch.after)
    elif (part := _part_of_window(work, batch)) is not None:
        await _close_window(tx, work, part, closing, batch.after)


async def _move_scan(tx: Tx, work: Work, batch: Batch, closing: Closing) -> None:
    """To the next link. Where details follow, not before all are there: the next scan begins behind it."""
    if not work.course.is_two_phase:
        if link := batch.page.next_token or batch.page.next_url:
            await cursors.move_token(tx, work.cursor, await _link_before(tx, work, batch), link, closing)
    elif batch.after.page and not batch.after.pending:
        link, found = batch.after.token or batch.after.url, await cursors.find(tx, work.cursor)
        if link and found and link != found.value:
            await cursors.move_token(tx, work.cursor, found.value, link, closing)


async def _link_before(tx: Tx, work: Work, batch: Batch) -> str | None:
    """Where the cursor must stand for this answer to move it."""
    if batch.before.reading > 1:  # the source has forgotten the links; only we are reading, so what is there is ours
        found = await cursors.find(tx, work.cursor)
        return found.value if found else None
    return (batch.ask.token or batch.ask.url) if batch.before.page else work.course.known_link


def _part_of_window(work: Work, batch: Batch) -> Span | None:
    """Pagination by time: each answered window is whole, unless it is short or details are still to come."""
    if work.spec.pagination.type is not PageType.TIME or work.course.is_two_phase or batch.after.is_short:
        return None
    before, after = batch.before.since, batch.after.since
    return Span(before, after) if before and after and after > before else None


# The books -------------------------------------------------------------------------------------------------------
def batch_row(work: Work, batch: Batch, counts: Counts) -> dict[str, Any]:
    ask, page, fetched = batch.ask, batch.page, batch.fetched
    key = f"{work.held.run_id}:{batch.number}:{ask.token or ask.url or ask.page_no}"
    return {
        **lineage_columns(work),
        "batch_no": batch.number,
        "page_no": ask.page_no,
        "page_size": ask.size or len(ask.ids),
        "before_token": ask.token if not batch.before.is_probe and batch.before.reading == 1 else None,
        "after_token": page.next_token,
        "before_url": ask.url,
        "next_url": page.next_url,
        "window_from": ask.span.start if ask.span else None,
        "window_to": ask.span.end if ask.span else None,
        "request": json.dumps(fetched.evidence["request"]),
        "response_digest": json.dumps(digest(work, batch)),
        "stats": json.dumps(_batch_stats(batch, counts)),
        "status_code": "SUCCEEDED",
        "ids_hash": batch.ids_hash,
        "idempotent_key": hashlib.sha256(key.encode()).hexdigest(),
    }


def failed_row(work: Work, number: int, error: Mapping[str, Any], *, status: str = "FAILED") -> dict[str, Any]:
    """A request that came to nothing."""
    evidence = (error.get("details") or {}).get("evidence") or {}
    return {
        **lineage_columns(work), "batch_no": number, "request": json.dumps(evidence.get("request") or {}),
        "response_digest": "{}", "stats": "{}", "status_code": status, "error": json.dumps(dict(error)),
        "idempotent_key": hashlib.sha256(f"{work.held.run_id}:{number}:{status}".encode()).hexdigest(),
    }  # fmt: skip


def lineage_columns(work: Work) -> dict[str, Any]:
    source, endpoint, operation = work.partition
    return {
        "run_id": work.held.run_id, "task_id": work.held.task_id, "slice_id": work.row["slice_id"],
        "plan_id": work.row["plan_id"], "expr_hash": work.row["expr_hash"], "provenance_code": source,
        "endpoint_name": endpoint, "operation_code": operation,
    }  # fmt: skip


def digest(work: Work, batch: Batch) -> dict[str, Any]:
    """What the source said, small and without secrets; enough to compare with when the request is made again."""
    sections = work.details if batch.ask.phase is Phase.DETAIL else work.spec
    evidence, page = batch.fetched.evidence, batch.page
    return {
        **evidence["response"],
        "sample": batch.fetched.mask.sample(batch.fetched.answer.body),
        "itemsPath": sections.response.items_path,
        "nextTokenPath": sections.pagination.next_token_path,
        "itemsCount": page.served,
        "totalHint": page.total,
        "hasNext": not batch.after.is_listed,
        "phase": batch.ask.phase,
        "specFingerprint": work.row["spec_fingerprint"],
        "sliceSignatureHash": work.row["slice_signature_hash"],
        **{name: value for name, value in evidence.items() if name not in {"request", "response"}},
    }


def _batch_stats(batch: Batch, counts: Counts) -> dict[str, Any]:
    evidence, page = batch.fetched.evidence, batch.page
    return {
        "itemsCount": page.served, "inserted": counts.inserted, "updated": counts.updated, "skipped": counts.skipped,
        "failed": len(page.faults), "latencyMs": evidence.get("latencyMs"), "retryCount": evidence.get("retryCount", 0),
        "429Count": evidence.get("429Count", 0), "hasNext": not batch.after.is_finished,
        "reading": batch.before.reading,
        "nextHint": {"token": batch.after.token, "page": batch.after.page, "url": batch.after.url},
        "http": {"status": batch.fetched.answer.status, "bytes": evidence["response"]["bytes"]},
        **dict(batch.remarks),
    }  # fmt: skip


class RunStats:
    """The sums of a run; only batches that are committed count."""

    def __init__(self) -> None:
        self.sums = dict.fromkeys(
            ("reqCount", "retCount", "inserted", "updated", "skipped", "failed", "retryCount", "429Count"), 0
        )
        self._latency_total = 0.0
        self._latency_most = 0.0
        self._has_next = True
        self._remarks: dict[str, Any] = {}

    def add(self, batch: Batch, counts: Counts) -> None:
        evidence = batch.fetched.evidence
        new = {
            "reqCount": 1, "retCount": batch.page.served, "inserted": counts.inserted, "updated": counts.updated,
            "skipped": counts.skipped, "failed": len(batch.page.faults), "retryCount": evidence.get("retryCount", 0),
            "429Count": evidence.get("429Count", 0),
        }  # fmt: skip
        for name, amount in new.items():
            self.sums[name] += amount
        latency = float(evidence.get("latencyMs") or 0)
        self._latency_total += latency
        self._latency_most = max(self._latency_most, latency)
        self._has_next = not batch.after.is_finished
        self._remarks.update(batch.remarks)

    def stored(self) -> dict[str, Any]:
        requests = self.sums["reqCount"]
        return {
            **self.sums, "avgLatencyMs": round(self._latency_total / requests) if requests else 0,
            "maxLatencyMs": round(self._latency_most), "pagesVisited": requests, "hasNextLast": self._has_next,
            **self._remarks,
        }  # fmt: skip


def late_arrivals(page: Page, span: Span | None) -> dict[str, Any]:
    """Items older than the window they came in: the source's clock, or its index, is behind itself."""
    start: datetime | None = span.start if span else None
    if start is None or not page.updated or min(page.updated) >= start:
        return {}
    return {"lateArrival": sum(1 for moment in page.updated if moment < start)}
