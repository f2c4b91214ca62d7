"""Chooses a worker's next task: merchants in turn, none with more than its share of the worker's places.

A wake-up names a task, but only says that there is something to do: what is done is the task whose turn it is. So a
merchant whose tasks fill the queue, or whose documents take long, does not keep another's task waiting. Several workers
may choose the same task; the claim decides, and whoever comes too late chooses again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from penstock.extraction import store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.states import Stage
from penstock.extraction.store import DueTask
from penstock.kernel.tenant_shares import TenantShares, share_of

_MOST_MISSES = 20  # tasks in a row that other workers were quicker to claim
_LONGEST_SECONDS = 900.0  # then other wake-ups go on: the queue forgets one that runs for an hour

Run = Callable[[Stage, int], Awaitable[bool]]


class TaskTurns:
    """One per worker."""

    def __init__(self, desk: EtlDesk, run: Run, stop: asyncio.Event) -> None:
        places = desk.settings.worker_count
        self._desk = desk
        self._run = run
        self._stop = stop
        self._shares = TenantShares(places, share_of(places, desk.settings.worker_share))

    async def run_next(self, woken_for: int) -> None:
        """Run the task whose turn it is, then the next, until nothing is due that this worker may take.

        So no task depends on its own wake-up: another's may have been used for it, and its own for another.
        """
        misses, until = 0, time.monotonic() + _LONGEST_SECONDS
        while misses < _MOST_MISSES and (task := await self._take(woken_for)) is not None:
            try:
                is_done = await self._run(task.stage, task.task_id)
            finally:
                self._shares.release(task.merchant_id)
            if self._stop.is_set() or time.monotonic() > until:
                return
            misses = 0 if is_done else misses + 1

    async def _take(self, woken_for: int) -> DueTask | None:
        async with self._desk.database.statement() as tx:
            due = await store.first_of_each(tx, self._desk.settings.arq_queue_name, woken_for)
        turns = self._shares.in_turn({each.merchant_id for each in due})
        if not turns:
            return None
        self._shares.take(turns[0])
        return next(each for each in due if each.merchant_id == turns[0])
