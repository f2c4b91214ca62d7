"""What the use cases of ETL work with, handed over once."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from penstock.extraction.runstate import RunState, RunStates
from penstock.extraction.settings import EtlSettings
from penstock.extraction.states import Stage
from penstock.kernel.db import Database
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.queue import Queue
from penstock.kernel.redis import RedisTrouble

log = structlog.get_logger(__name__)

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

    async def wake(self, row: RunState, *, after: float = 0.0) -> None:
        """Ask a worker to do the stage that is due. Lost wake-ups cost seconds: the sweep asks again."""
        once = f"{row.phase}:{row.task_id}:{row.generation}:{row.token}"
        try:
            delay = timedelta(seconds=after) if after else None
            job_id = await self.queue.wake(JOBS[row.phase], row.task_id, once=once, after=delay)
        except RedisTrouble:
            log.info("etl.wake_up_lost", task=row.task_id)
            return
        if job_id is not None:
            await self.states.note(row.task_id, job_id=job_id)
