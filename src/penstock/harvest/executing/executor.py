"""An executor: claims tasks, runs several at once, keeps its leases alive, and gives everything back when told to stop.

Run as many as wanted: they share nothing but PostgreSQL and the rate gate. Each also looks for tasks of executors that
have fallen silent, so one executor alone recovers from the death of another.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import structlog

from penstock.harvest.executing import metrics, settle, store
from penstock.harvest.executing.claim import TASKS, Claimer, Held, begin
from penstock.harvest.executing.run import Outcome, TaskRun, Tools
from penstock.harvest.executing.settle import Ending
from penstock.harvest.executing.work import load
from penstock.harvest.states import RunStatus, TaskStatus
from penstock.kernel import error_codes, leases
from penstock.kernel.db import server_time
from penstock.kernel.errors import Kind, PenstockError, circumstances_of, raise_unless_unavailable, reason_of
from penstock.kernel.telemetry import spanned

log = structlog.get_logger(__name__)


class Executor:
    """`sources` narrows it to some; none: all."""

    def __init__(self, tools: Tools, *, owner: str, sources: Sequence[str] | None = None) -> None:
        self._tools = tools
        settings = tools.settings
        self._claimer = Claimer(tools.database, owner, settings.total, settings.lease_seconds, sources)
        self._sources = sources
        # By run: a task that we lost may be ours again before the old run has noticed.
        self._held: dict[int, Held] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; running tasks end with the batch that they are in."""
        await self._work_until(stop, is_once=False)

    async def drain(self, stop: asyncio.Event) -> None:
        """Until nothing of our sources is queued or running anywhere, or we are told to stop."""
        await self._work_until(stop, is_once=True)

    async def _work_until(self, stop: asyncio.Event, *, is_once: bool) -> None:
        keeper = asyncio.create_task(self._keep_leases())
        try:
            while not stop.is_set():
                self._ended.clear()  # before we look: what ends while we do leaves room that we have not seen
                try:
                    await self._fill(stop)
                    if is_once and not self._running and await self._is_all_done():
                        return
                except PenstockError as away:
                    raise_unless_unavailable(away)
                    log.warning("executor.waiting", reason=str(away))
                await self._wait(stop)
        finally:
            await self._leave()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _fill(self, stop: asyncio.Event) -> None:
        while len(self._running) < self._tools.settings.per_executor and not stop.is_set():
            held = await self._claimer.claim()
            if held is None:
                return
            self._held[held.run_id] = held
            task = asyncio.create_task(self._carry_out(held, stop), name=f"task {held.task_id}")
            self._running[held.run_id] = task

    async def _wait(self, stop: asyncio.Event) -> None:
        """For a task of ours to end, for a while, or to be told to stop."""
        waits = [asyncio.create_task(self._ended.wait()), asyncio.create_task(stop.wait())]
        try:
            seconds = self._tools.settings.poll_seconds.total_seconds()
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _is_all_done(self) -> bool:
        async with self._tools.database.transaction() as tx:
            return bool((await store.live_tasks(tx, self._sources))["live"] == 0)

    async def waiting(self) -> dict[str, Any]:
        """For a live view: what is left, and the next moment at which something can be claimed."""
        async with self._tools.database.transaction() as tx:
            left = await store.live_tasks(tx, self._sources)
            moment: datetime = await server_time(tx)
        return {**left, "now": moment}

    # One task --------------------------------------------------------------------------------------------------
    async def _carry_out(self, held: Held, stop: asyncio.Event) -> None:
        try:
            await self._begin_and_run(held, stop)
        except PenstockError as failure:
            if failure.code in {error_codes.LEASE_LOST, error_codes.STATE_CHANGED}:
                log.warning("task.lost", task_id=held.task_id, reason=str(failure))
            else:
                await self._give_back(held, failure)
        except Exception as failure:  # one task's fault must not end the executor
            log.exception("task.stumbled", task_id=held.task_id)
            await self._give_back(held, failure)
        finally:
            self._held.pop(held.run_id, None)
            self._running.pop(held.run_id, None)
            self._ended.set()

    async def _begin_and_run(self, held: Held, stop: asyncio.Event) -> Outcome:
        async with self._tools.database.transaction() as tx:
            work = await load(tx, held)
            await begin(tx, held)
        source, endpoint, operation = work.partition
        with spanned("harvest.run", source=source, endpoint=endpoint, operation=operation, run_id=held.run_id):
            outcome = await TaskRun(self._tools, work, stop).run()
        metrics.RUNS.labels(*work.partition, outcome.run).inc()
        return outcome

    async def _give_back(self, held: Held, failure: Exception) -> None:
        """What we could not foresee costs one attempt; what hides in the database's absence is found by the lease."""
        is_away = isinstance(failure, PenstockError) and failure.kind is Kind.UNAVAILABLE
        code = failure.code.code if isinstance(failure, PenstockError) else "INTERNAL_ERROR"
        attempts = held.task["attempts"]
        is_last = not is_away and attempts + 1 >= self._tools.settings.attempts
        ending = Ending(
            RunStatus.FAILED, TaskStatus.FAILED if is_last else TaskStatus.QUEUED, "stumbled",
            {"code": code, "message": circumstances_of(failure)}, settle.back_off(attempts), is_fruitless=not is_away,
        )  # fmt: skip
        await self._let_go(held, ending)

    # Leases ----------------------------------------------------------------------------------------------------
    async def _keep_leases(self) -> None:
        settings = self._tools.settings
        while True:
            await asyncio.sleep(settings.lease_seconds.total_seconds() / 4)
            try:
                await self._renew()
                await settle.take_from_the_silent(self._tools.database, most_attempts=settings.attempts)
            except Exception as failure:  # whatever is wrong with somebody's task, our own leases are kept
                is_away = isinstance(failure, PenstockError) and failure.kind is Kind.UNAVAILABLE
                log.warning("executor.waiting", reason=reason_of(failure), exc_info=not is_away)

    async def _renew(self) -> None:
        held = list(self._held.values())
        if not held:
            return
        async with self._tools.database.transaction() as tx:
            kept = set(
                await leases.renew(
                    tx, TASKS, [each.lease for each in held], ttl=self._tools.settings.lease_seconds
                )
            )  # fmt: skip
        for each in held:
            task = self._running.get(each.run_id)
            if each.task_id not in kept and task is not None:
                log.warning("task.lease_lost", task_id=each.task_id)
                task.cancel()

    async def _leave(self) -> None:
        """Tasks end with the batch they are in; who takes too long is cut off, and its task is given back."""
        if not self._running:
            return
        grace = self._tools.settings.leave_seconds.total_seconds()
        _, late = await asyncio.wait(list(self._running.values()), timeout=grace)
        for task in late:
            task.cancel()
        held = list(self._held.values())
        await asyncio.gather(*late, return_exceptions=True)
        ending = Ending(RunStatus.PARTIAL, TaskStatus.QUEUED, "stopped")
        for each in held:
            await self._let_go(each, ending)

    async def _let_go(self, held: Held, ending: Ending) -> None:
        """While the database is away we try again: it is back sooner than our lease ends, as a rule."""
        tries_until = time.monotonic() + self._tools.settings.lease_seconds.total_seconds()
        sources = [TaskStatus.EXECUTING, TaskStatus.DISPATCHED]
        while sources and time.monotonic() < tries_until:
            try:
                async with self._tools.database.transaction() as tx:
                    await settle.end(tx, held, ending, source=sources[0])
            except PenstockError as failure:
                if failure.kind is Kind.UNAVAILABLE:
                    await asyncio.sleep(0.5)
                    continue
                sources.pop(0)  # it has not begun; or it is not ours any more
            else:
                return
        log.info("task.left_to_its_lease", task_id=held.task_id)
