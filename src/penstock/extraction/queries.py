"""Looking at tasks: Redis first, PostgreSQL behind it.

A task that runs is told from Redis alone. Ends, results, and whatever Redis does not know or has not heard of for a
while come from PostgreSQL; a run state that was lost is written anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.extraction import runstate, store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.runstate import RunState
from penstock.extraction.states import TaskStatus
from penstock.kernel import error_codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller

_DOUBTFUL = timedelta(seconds=30)  # without news PostgreSQL is asked


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as people see it. `row` is None when Redis alone answered."""

    state: RunState
    row: Mapping[str, Any] | None = None


def visible(row: dict[str, Any] | None, task_id: int, caller: Caller) -> dict[str, Any]:
    """ETL_TASK_NOT_FOUND also for another merchant's."""
    if row is None or not caller.sees(row["merchant_id"]):
        raise PenstockError(error_codes.ETL_TASK_NOT_FOUND, task_id=task_id)
    return row


async def look(desk: EtlDesk, task_id: int, caller: Caller) -> TaskView:
    state = await desk.states.read(task_id)
    if state is not None and not state.is_over and not _is_doubtful(state):
        if not caller.sees(str(state.facts.get("merchant_id"))):
            raise PenstockError(error_codes.ETL_TASK_NOT_FOUND, task_id=task_id)
        return TaskView(state)
    async with desk.database.transaction() as tx:
        row = visible(await store.find(tx, task_id), task_id, caller)
    implied = runstate.of_row(row)
    if state is None:
        await desk.states.write(implied)
    return TaskView(_newer(implied, state), row)


async def listed(
    desk: EtlDesk, caller: Caller, *, statuses: Sequence[str] | None = None, before: int | None = None, limit: int = 50
) -> list[TaskView]:
    """Newest first; the base is PostgreSQL, run states lie over it."""
    async with desk.database.transaction() as tx:
        rows = await store.page(tx, None if caller.sees_all else caller.merchant_id, statuses, before, limit)
    running = [row["task_id"] for row in rows if row["status"] == TaskStatus.PENDING]
    states = await desk.states.read_many(running) if running else {}
    return [TaskView(_newer(runstate.of_row(row), states.get(row["task_id"])), row) for row in rows]


def _newer(implied: RunState, state: RunState | None) -> RunState:
    """What Redis says of a task that runs, unless PostgreSQL knows of its end or of a newer generation."""
    if state is None or implied.is_over or state.is_over or state.generation < implied.generation:
        return implied
    return state


def _is_doubtful(state: RunState) -> bool:
    return state.updated_at is None or SystemClock().now() - state.updated_at > _DOUBTFUL
