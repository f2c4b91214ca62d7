"""Letting go of a task: done, given back, failed, or taken from an executor that died.

Each of these is one transaction in which the status, the lease, the slots and the run change together. The lease's
token is checked by the same statement that changes the status: whoever lost the task changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from penstock.harvest.executing import metrics, store
from penstock.harvest.executing.claim import Held
from penstock.harvest.states import RUN, TASK, RunStatus, TaskStatus
from penstock.kernel import json
from penstock.kernel.backoff import exponential
from penstock.kernel.db import Database, Tx, server_time
from penstock.kernel.statemachine import Step, move, moving

log = structlog.get_logger(__name__)

_LET_GO = {"lease_owner": None, "leased_until": None}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its own status, the task's, and why."""

    run: RunStatus
    task: TaskStatus
    trigger: str
    error: Mapping[str, Any] | None = None
    after: timedelta = timedelta(0)  # of a task that goes back: not before then
    is_fruitless: bool = False  # it counts towards the attempts


async def end(tx: Tx, held: Held, ending: Ending, *, source: TaskStatus = TaskStatus.EXECUTING) -> None:
    """Raises STATE_CHANGED when the task is no longer ours."""
    changes: dict[str, Any] = dict(_LET_GO)
    moment = await server_time(tx)
    if ending.task is TaskStatus.QUEUED:
        changes |= {"scheduled_at": moment + ending.after}
    else:
        changes |= {"finished_at": moment}
    attempts = held.task["attempts"] + 1 if ending.is_fruitless else 0
    changes |= {"attempts": attempts, "error": _stored(ending.error)}
    task = Step(
        str(held.task_id), source, ending.task, by="executor", trigger=ending.trigger, changes=changes,
        guards={"lease_token": held.lease.token}, payload={"plan_id": held.task["plan_id"], "run_id": held.run_id},
    )  # fmt: skip
    begun = RunStatus.PLANNED if source is TaskStatus.DISPATCHED else RunStatus.RUNNING
    run = Step(
        str(held.run_id), begun, ending.run, by="executor", trigger=ending.trigger,
        changes={"finished_at": moment, "error": _stored(ending.error)},
    )  # fmt: skip
    async with moving(tx, (TASK, task), (RUN, run)):
        await store.free_slots(tx, [held.task_id])


def back_off(attempts: int) -> timedelta:
    """How long a task that failed rests before the next attempt."""
    return timedelta(seconds=exponential(attempts + 1, first=1.0, most=300.0))


async def take_from_the_silent(database: Database, *, most_attempts: int, limit: int = 100) -> int:
    """Tasks whose executor has not renewed its lease go back to the queue; returns how many."""
    async with database.transaction() as tx:
        rows = await store.silent_tasks(tx, limit)
        for row in rows:
            await _take(tx, row, most_attempts)
        await store.free_slots(tx, [row["id"] for row in rows])
    if rows:
        log.warning("task.executor_lost", tasks=[row["id"] for row in rows])
    return len(rows)


async def sweep_tasks(database: Database, *, most_attempts: int) -> None:
    """What no executor may be there to notice."""
    await take_from_the_silent(database, most_attempts=most_attempts)
    async with database.transaction() as tx:
        if freed := await store.free_forgotten_slots(tx):
            log.warning("slots.forgotten", slots=freed)
        metrics.show_queue(await store.queue_lengths(tx))
        metrics.show_lag(await store.harvests_reached(tx), await server_time(tx))


async def _take(tx: Tx, row: Mapping[str, Any], most_attempts: int) -> None:
    """An executor that dies of its task would take all others with it in turn: what stored nothing is an attempt."""
    error = {"code": "EXECUTOR_LOST", "message": "the executor stopped without a word"}
    runs = await store.open_runs(tx, row["id"])
    attempts = 0 if any(run["has_stored"] for run in runs) else row["attempts"] + 1
    target, moment = TaskStatus.QUEUED, await server_time(tx)
    changes = {**_LET_GO, "attempts": attempts, "error": _stored(error)}
    if attempts >= most_attempts:
        target, changes = TaskStatus.FAILED, {**changes, "finished_at": moment}
    await move(
        tx,
        TASK,
        Step(
            str(row["id"]), TaskStatus(row["status_code"]), target, by="scheduler", trigger="executor_lost",
            changes=changes, guards={"lease_token": row["lease_token"]},
        ),
    )  # fmt: skip
    for run in runs:
        await move(
            tx,
            RUN,
            Step(
                str(run["id"]), RunStatus(run["status_code"]), RunStatus.FAILED, by="scheduler",
                trigger="executor_lost", changes={"finished_at": moment, "error": _stored(error)},
            ),
        )  # fmt: skip


def _stored(error: Mapping[str, Any] | None) -> str | None:
    return None if error is None else json.dumps(dict(error))
