"""A task in a worker's hands: claimed, kept while the work runs, let go with its outcome.

The lease is renewed beside the work. Lost (the worker was paused too long, or the row went elsewhere), the work is
cancelled and nothing is written any more. Work that gives no sign of life for `ETL_TASK_TIMEOUT` is ended too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Never

from penstock.extraction import runstate, store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.runstate import RunState
from penstock.extraction.states import RunStatus, Stage
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.keeping import beside, renew_or_lose
from penstock.kernel.leases import Leasable, Lease

TASKS = Leasable("etl_task", "task_id", ready="status = 'pending'", order="due_at, task_id")
_TELL_SECONDS = 0.5
_MOMENT = 0.1  # seconds: a stage that is over by then is only told as over
_SHARES = {Stage.OCR: (0, 80), Stage.POSTPROCESS: (80, 99)}  # of a task's progress, in percent
_RUNNING = {Stage.OCR: RunStatus.MINERU_PARSING, Stage.POSTPROCESS: RunStatus.LLM_PROCESSING}


class Held:
    """One claimed task."""

    def __init__(self, desk: EtlDesk, row: dict[str, Any]) -> None:
        self.desk = desk
        self.row = row
        self.task_id: int = row["task_id"]
        self.stage = Stage(row["phase"])
        self.lease = Lease(row["task_id"], row["lease_token"], row)
        self._sign_of_life = time.monotonic()
        self._told = 0.0
        self._is_shown = False
        self._news: tuple[int, dict[str, Any]] = (row["progress"], {})

    @property
    def is_continued(self) -> bool:
        """Whether somebody held it before, who may have left something in the store."""
        return self.lease.token > 1

    async def tell(self, done: int, total: int) -> None:
        """Progress within the stage, at most twice a second; any call is a sign of life."""
        self._sign_of_life = now = time.monotonic()
        first, last = _SHARES[self.stage]
        share = done / total if total else 0.0
        progress, pages = first + round((last - first) * min(1.0, share)), {"done": done, "total": total}
        self._news = (progress, {"pages": pages})
        if not self._is_shown or (now - self._told < _TELL_SECONDS and done < total):
            return
        self._told = now
        await self.show(progress, pages=pages)

    async def show(self, progress: int, **facts: Any) -> None:
        state = runstate.of_row(self.row)
        shown = RunState(
            self.task_id, state.generation, self.lease.token, _RUNNING[self.stage], self.stage, progress,
            {**state.facts, **facts},
        )  # fmt: skip
        await self.desk.states.write(shown)

    async def _show_news(self) -> None:
        self._is_shown = True
        progress, facts = self._news
        await self.show(progress, **facts)

    async def keeping(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """What the work returns; LEASE_LOST or ETL_STAGE_TIMEOUT when it was ended from outside."""
        if self.row[f"{self.stage}_attempts"]:  # people are still shown the pause before this attempt
            await self._show_news()
        return await beside(self._watch, work)

    async def _watch(self) -> Never:
        """Shows how far it is, unless it is over in a moment."""
        if not self._is_shown:
            await asyncio.sleep(_MOMENT)
            await self._show_news()
        ttl, longest = self.desk.settings.lease_seconds, self.desk.settings.task_timeout.total_seconds()
        while True:
            await asyncio.sleep(min(ttl.total_seconds() / 3, longest / 4))
            if time.monotonic() - self._sign_of_life > longest:
                raise PenstockError(error_codes.ETL_STAGE_TIMEOUT, stage=self.stage, seconds=longest)
            await renew_or_lose(self.desk.database, TASKS, self.lease, ttl)


async def claim(desk: EtlDesk, task_id: int, stage: Stage, owner: str) -> Held | None:
    """None: it is not due, somebody has it, it has ended, or it is in the other stage."""
    async with desk.database.statement() as tx:
        row = await store.claim(tx, task_id, stage, owner=owner, ttl=desk.settings.lease_seconds)
    return None if row is None else Held(desk, row)
