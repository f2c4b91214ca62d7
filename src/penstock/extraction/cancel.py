"""Taking a task back, before any worker has begun with it."""

from typing import Any

from penstock.extraction import runstate, settling, store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.queries import visible
from penstock.extraction.states import TASK, TaskStatus
from penstock.kernel import error_codes, failpoints
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.statemachine import Step, move


async def cancel(desk: EtlDesk, task_id: int, caller: Caller) -> dict[str, Any]:
    """The row. ETL_ALREADY_STARTED once a worker has claimed it, and when it has ended.

    Claiming and cancelling both lock the row, so one of them comes first and the other sees it.
    """
    async with desk.database.transaction() as tx:
        row = visible(await store.lock(tx, task_id), task_id, caller)
        if row["status"] != TaskStatus.PENDING or row["started_at"] is not None:
            raise PenstockError(error_codes.ETL_ALREADY_STARTED, task_id=task_id, status=runstate.of_row(row).status)
        step = Step(
            str(task_id), TaskStatus.PENDING, TaskStatus.CANCELLED, by="api", trigger="cancelled",
            operator=caller.user_id, changes={"finished_at": row["now"], "updated_at": row["now"]},
        )  # fmt: skip
        moved = await move(tx, TASK, step)
    failpoints.reach("etl.cancelled")
    await settling.show_end(desk, moved)
    return moved
