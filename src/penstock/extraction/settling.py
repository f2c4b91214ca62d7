"""How a stage's outcome becomes the task's: on to the next stage, completed, tried again later, or failed.

Each is one transaction that lets go of the lease, mostly of a single statement. It is guarded by the lease's token, so
of a late worker nothing is written: not over a cancellation, not over a newer attempt.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog

from penstock.extraction import metrics, runstate
from penstock.extraction.desk import EtlDesk
from penstock.extraction.folder import Manifest
from penstock.extraction.holding import TASKS, Held
from penstock.extraction.states import TASK, Stage, TaskStatus
from penstock.kernel import failpoints, json, leases
from penstock.kernel.backoff import exponential
from penstock.kernel.db import NOW, server_time
from penstock.kernel.errors import PenstockError, circumstances_of
from penstock.kernel.statemachine import Step, move

log = structlog.get_logger(__name__)

_LARGEST_RESULT = 1 << 20  # bytes in the row; larger ones are read from the store


async def advance(held: Held, manifest: Manifest) -> None:
    """The document is read: the second stage is due."""
    desk = held.desk
    metadata = held.row["metadata"] | {"artifacts": pointers(manifest), "ocr": dict(manifest.metadata)}
    changes = {"phase": Stage.POSTPROCESS.value, "metadata": json.dumps(metadata), "progress": 80}
    failpoints.reach("etl.advancing")
    async with desk.database.statement() as tx:
        await leases.settle(tx, TASKS, held.lease, changes | {"due_at": NOW, "updated_at": NOW})
    failpoints.reach("etl.advanced")
    row = held.row | changes | {"metadata": metadata}
    await desk.place(runstate.of_row(row))
    log.info("etl.read", task=held.task_id, pages=manifest.page_count, provider=manifest.provider)


async def complete(held: Held, result: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    encoded = json.dumps_storable(result)
    if len(encoded) > _LARGEST_RESULT:
        small = {name: value for name, value in result.items() if name not in {"data", "provenance"}}
        encoded = json.dumps_storable(small | {"is_large": True})
    await _end(held, TaskStatus.COMPLETED, {"result": encoded, "error": None, "progress": 100}, metadata)


async def fail(held: Held, failure: PenstockError) -> None:
    """Tried again if that can help and has not been done often enough; otherwise the task has failed."""
    desk, stage = held.desk, held.stage
    column = f"{stage}_attempts"
    attempts = held.row[column] + 1
    most = desk.settings.ocr_max_attempts if stage is Stage.OCR else desk.settings.postprocess_max_attempts
    error = error_of(stage, failure, attempts)
    metrics.FAILURES.labels(stage, failure.code.code).inc()
    if not failure.code.retryable or attempts >= most:
        await _end(held, TaskStatus.FAILED, {"error": json.dumps(error), column: attempts}, {})
        return
    after = _pause(desk, attempts, failure)
    async with desk.database.transaction() as tx:
        now = await server_time(tx)
        later = now + timedelta(seconds=after)
        await leases.settle(tx, TASKS, held.lease, {column: attempts, "due_at": later, "updated_at": now})
    state = runstate.of_row(held.row | {column: attempts})
    told = {"error": error, "next_attempt_at": later.isoformat(), "attempts": state.facts["attempts"]}
    await held.show(state.progress, **told)
    await desk.wake(state, after=after)
    log.warning("etl.tried_again", task=held.task_id, stage=stage, attempt=attempts, code=failure.code.code)


async def give_back(held: Held) -> None:
    """Nothing came of it, and nobody is to blame: due again at once."""
    async with held.desk.database.transaction() as tx:
        await leases.give_back(tx, TASKS, [held.lease])
    await held.desk.wake(runstate.of_row(held.row))


async def _end(held: Held, status: TaskStatus, changes: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    desk, row = held.desk, held.row
    merged = row["metadata"] | dict(metadata)
    step = Step(
        str(held.task_id), TaskStatus.PENDING, status, by="worker", trigger=f"{held.stage}_ended",
        payload={"task_id": held.task_id, "filename": row["filename"], "stage": held.stage},
        guards={"lease_token": held.lease.token},
        changes={
            **changes, "metadata": json.dumps_storable(merged), "finished_at": NOW, "updated_at": NOW,
            "lease_owner": None, "leased_until": None,
        },
    )  # fmt: skip
    failpoints.reach("etl.ending")
    async with desk.database.statement() as tx:
        ended = await move(tx, TASK, step)
    failpoints.reach("etl.ended")
    await show_end(desk, ended)
    metrics.ENDED.labels(status).inc()
    log.info("etl.ended", task=held.task_id, status=status, stage=held.stage)


async def show_end(desk: EtlDesk, row: Mapping[str, Any]) -> None:
    """Redis is told how it ended; the sweep tells it again in case this one is lost."""
    state = runstate.of_row(row)
    facts = dict(state.facts) | ({"error": row["error"]} if row["error"] else {})
    await desk.states.write(replace(state, facts=facts))


def pointers(manifest: Manifest) -> dict[str, Any]:
    """What a later attempt, or a person, needs to find the artefacts."""
    return {
        "markdown_s3_key": manifest.markdown_key,
        "pages_s3_keys": sorted(manifest.parts),
        "images": manifest.images,
        "provider": manifest.provider,
        "provider_task_id": manifest.provider_task_id,
        "page_count": manifest.page_count,
    }


def error_of(stage: Stage, failure: PenstockError, attempts: int) -> dict[str, Any]:
    told = {
        "stage": stage.value,
        "code": failure.code.code,
        "message": {"zh": failure.code.message.zh, "en": failure.code.message.en},
        "remedy": {"zh": failure.code.remedy.zh, "en": failure.code.remedy.en},
        "reason": circumstances_of(failure),
        "details": {name: _writable(value) for name, value in failure.details.items()},
        "attempts": attempts,
    }
    stored: dict[str, Any] = json.storable(told)
    return stored


def _writable(value: Any) -> Any:
    """A plug-in may put anything into an error; one that could not be written would never be settled."""
    try:
        json.dumps(json.storable(value))
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
    return value


def _pause(desk: EtlDesk, attempts: int, failure: PenstockError) -> float:
    settings = desk.settings
    own = exponential(
        attempts,
        first=settings.retry_backoff_base_seconds.total_seconds(),
        most=settings.retry_backoff_max_seconds.total_seconds(),
    )
    asked = failure.details.get("retry_after")
    return max(own, min(float(asked), 3600.0)) if isinstance(asked, int | float) else own
