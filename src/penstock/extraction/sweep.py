"""What keeps tasks going when something was lost: workers, wake-ups, run states. Safe to run twice, and at any time."""

from collections import Counter
from datetime import timedelta
from typing import Any

import structlog

from penstock.extraction import runstate, settling, store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.states import TASK, Stage, TaskStatus
from penstock.kernel import error_codes, json
from penstock.kernel.db import Tx, server_time
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Step, move

log = structlog.get_logger(__name__)

_AT_ONCE = 500
_WAKE_UPS = 50  # for one merchant: each only says that there is something to do, and these are enough for many workers
_JUST = timedelta(minutes=10)


async def sweep(desk: EtlDesk) -> None:
    """Free what dead workers held, wake workers for what is due, tell Redis of ends that it may have missed."""
    async with desk.database.transaction() as tx:
        lost = await store.expire(tx, _AT_ONCE)
        hopeless = [await _give_up(tx, row) for row in lost if row["lost_workers"] >= desk.settings.max_lost_workers]
    for row in lost:
        log.warning("etl.worker_lost", task=row["task_id"], stage=row["phase"], times=row["lost_workers"])
        await desk.forget_wake_up(runstate.of_row(row))
    async with desk.database.transaction() as tx:
        due = await store.due(tx, _AT_ONCE)
        ended = await store.just_ended(tx, _JUST, _AT_ONCE)
    known = await desk.states.read_many([row["task_id"] for row in [*due, *ended]])
    woken: Counter[str] = Counter()
    for row in due:
        state = runstate.of_row(row)
        if row["task_id"] not in known:
            await desk.states.write(state)
        woken[row["merchant_id"]] += 1
        if woken[row["merchant_id"]] <= _WAKE_UPS:
            await desk.wake(state)
    for row in [*hopeless, *ended]:
        if (seen := known.get(row["task_id"])) is not None and not seen.is_over:
            await settling.show_end(desk, row)


async def _give_up(tx: Tx, row: dict[str, Any]) -> dict[str, Any]:
    failure = PenstockError(error_codes.ETL_WORKERS_LOST, times=row["lost_workers"])
    now = await server_time(tx)
    error = settling.error_of(Stage(row["phase"]), failure, row["lost_workers"])
    step = Step(
        str(row["task_id"]), TaskStatus.PENDING, TaskStatus.FAILED, by="worker", trigger="workers_lost",
        payload={"task_id": row["task_id"], "filename": row["filename"], "stage": row["phase"]},
        guards={"lease_token": row["lease_token"]},
        changes={"error": json.dumps(error), "finished_at": now, "updated_at": now},
    )  # fmt: skip
    return await move(tx, TASK, step)
