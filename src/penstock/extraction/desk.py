"""What the use cases of ETL work with, handed over once."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from penstock.extraction.runstate import RunState, RunStates
from penstock.extraction.settings import EtlSettings
from penstock.extraction.states import Stage
from penstock.kernel.db import Database
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.queue import Queue
from penstock.kernel.redis import RedisTrouble, run_scripts
from penstock.kernel.streams.turns import MerchantTurns

log = structlog.get_logger(__name__)

_MOST_WAKE_UPS = 20
_PLACED_AT_ONCE = 4  # files are hashed and copied in threads that all share
JOBS = {Stage.OCR: "etl_ocr", Stage.POSTPROCESS: "etl_postprocess"}


@dataclass(frozen=True, slots=True)
class EtlDesk:
    """One per process."""

    database: Database
    store: ObjectStore
    queue: Queue
    states: RunStates
    settings: EtlSettings
    uploads: Path  # where finished uploads lie
    keep_free: int = 0  # bytes of the disk that are left to others
    placing: MerchantTurns = field(default_factory=lambda: MerchantTurns(_PLACED_AT_ONCE, per_merchant=1))

    async def wake(self, row: RunState, *, after: float = 0.0) -> None:
        """Ask a worker to do the stage that is due. Lost wake-ups cost seconds: the sweep asks again.

        A worker may die between taking the wake-up and claiming the task. Its wake-up stays where it is, so there is
        another beside it; one too many finds nothing to do.
        """
        once = _once(row)
        delay = timedelta(seconds=after) if after else None
        try:
            for name in (once, *(f"{once}:{number}" for number in range(1, _MOST_WAKE_UPS))):
                job_id = await self.queue.wake(JOBS[row.phase], row.task_id, once=name, after=delay)
                if job_id is not None and row.facts.get("job_id") != job_id:
                    await self.states.note(row.task_id, job_id=job_id)
                if job_id is not None or not await self.queue.is_taken(name):
                    return
        except RedisTrouble:
            log.info("etl.wake_up_lost", task=row.task_id)

    async def place(self, row: RunState) -> None:
        """Show a stage that has just become due, with the id of its job, and ask a worker: one trip to Redis.

        The second stage waits since the task was made, so what is begun is ended before more is begun.
        """
        once = _once(row)
        state = replace(row, facts={**row.facts, "job_id": self.queue.id_of(once)})
        since = datetime.fromisoformat(row.facts["created_at"]) if row.phase is Stage.POSTPROCESS else None
        waking = self.queue.waking(JOBS[row.phase], row.task_id, once=once, since=since)
        try:
            _, is_new = await run_scripts(self.queue.arq, self.states.writing(state), waking)
        except RedisTrouble:
            log.info("etl.wake_up_lost", task=row.task_id)
            return
        if not is_new:
            await self.wake(state)

    async def forget_wake_up(self, row: RunState) -> None:
        """The worker that was woken by it is lost."""
        try:
            await self.queue.forget(f"{row.phase}:{row.task_id}:{row.generation}:{row.token - 1}")
        except RedisTrouble:
            log.info("etl.wake_up_not_forgotten", task=row.task_id)


def _once(row: RunState) -> str:
    return f"{row.phase}:{row.task_id}:{row.generation}:{row.token}"
