"""A user's retry: from reading, or only from what was read.

A new generation of the task begins; whoever still works on the old one cannot write any more. A retry of the second
stage never reads the document again: it goes on from the manifest, or says that there is none.
"""

from datetime import timedelta
from typing import Any

from penstock.extraction import rule_content, rules, runstate, store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.folder import Folder
from penstock.extraction.queries import visible
from penstock.extraction.queue_places import take_place
from penstock.extraction.states import TASK, Stage, TaskStatus
from penstock.kernel import error_codes, failpoints, json
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.statemachine import Step, move


async def retry(
    desk: EtlDesk, task_id: int, from_stage: Stage, caller: Caller, *, newest_rule: bool = False
) -> dict[str, Any]:
    """The row. ETL_NOT_ENDED while it runs, ETL_ARTEFACT_GONE when only reading again can help; a full queue."""
    async with desk.database.transaction() as tx:
        row = _over(visible(await store.find(tx, task_id), task_id, caller))
    folder = Folder(desk.store, task_id, row["ocr_generation"])
    if from_stage is Stage.POSTPROCESS and not await folder.is_whole():
        raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=task_id)
    async with desk.database.transaction() as tx:
        row = _over(visible(await store.lock(tx, task_id), task_id, caller))
        if from_stage is Stage.POSTPROCESS:
            _check_time(row, desk.settings.artefacts_days)
        generation = row["generation"] + 1
        changes: dict[str, Any] = {
            "phase": from_stage.value, "generation": generation, "ocr_attempts": 0, "postprocess_attempts": 0,
            "lost_workers": 0, "result": None, "error": None, "started_at": None, "finished_at": None,
            "cleared_at": None, "due_at": row["now"], "updated_at": row["now"], "lease_token": row["lease_token"] + 1,
            "progress": 0 if from_stage is Stage.OCR else 80, "queue": desk.settings.arq_queue_name,
        }  # fmt: skip
        if from_stage is Stage.OCR:  # by whoever reads now; pointers are only to what a later retry can go on from
            changes |= {"ocr_generation": generation, "provider": desk.settings.provider, "metadata": {}}
        else:
            changes["metadata"] = {name: told for name, told in row["metadata"].items() if name != "postprocess"}
        if newest_rule:
            rule = await rules.rule_for(tx, row["rule_id"], caller, desk.settings)
            changes |= {"rule": json.dumps(rule_content.snapshot(rule)), "rule_version": rule.version}
        step = Step(
            str(task_id), TaskStatus(row["status"]), TaskStatus.PENDING, by="api", trigger=f"retry_from_{from_stage}",
            operator=caller.user_id, changes=changes, guards={"generation": row["generation"]},
        )  # fmt: skip
        await take_place(tx, row["merchant_id"], desk.settings)
        moved = await move(tx, TASK, step)
    failpoints.reach("etl.retried")
    await desk.place(runstate.of_row(moved))
    return moved


def _over(row: dict[str, Any]) -> dict[str, Any]:
    if row["status"] == TaskStatus.PENDING:
        raise PenstockError(error_codes.ETL_NOT_ENDED, task_id=row["task_id"])
    return row


def _check_time(row: dict[str, Any], days: int) -> None:
    """Somebody may be removing them right now."""
    if row["cleared_at"] is not None or row["finished_at"] < row["now"] - timedelta(days=days):
        raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=row["task_id"], kept_days=days)
