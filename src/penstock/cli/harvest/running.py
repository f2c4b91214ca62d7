"""A harvest carried out here and now: what is queued first, then what is missing, until everything is stored.

Numbers come from the database, as other executors may work on the same plan. Stopped or killed anywhere, the same
command goes on: tasks are given back, or found by their lease.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.cli.harvest.desk import owner
from penstock.cli.harvest.rehearsal import STANDIN_GONE
from penstock.harvest import overview
from penstock.harvest.executing.store import release_source
from penstock.harvest.overview import Progress, Trouble
from penstock.harvest.states import PlanStatus
from penstock.kernel.db import server_time
from penstock.kernel.errors import PenstockError, Sentence, raise_unless_unavailable

if TYPE_CHECKING:
    from penstock.harvest.desk import HarvestDesk
    from penstock.harvest.executing import Note
    from penstock.harvest.planning import Outcome, Trigger

T = TypeVar("T")

_LOOK_SECONDS = 0.5
_HOPELESS = frozenset({"SOURCE_AUTH_FAILED", "CREDENTIAL_MISSING"})  # waiting does not help


@dataclass(slots=True)
class Standing:
    """Where the harvest stands, as a view shows it."""

    phase: str = "begin"  # begin, left, plan, work
    started: datetime | None = None
    plans: set[int] = field(default_factory=set)
    plan_id: int | None = None  # the one that this command made
    progress: Progress = field(default_factory=Progress)
    done_before: int = 0
    waited: float = 0.0  # seconds that the rate limit took, of our own requests
    own: Progress = field(default_factory=Progress)  # what our executor told since the last look
    seconds: float = 0.0
    me: str = field(default_factory=owner)

    @property
    def items(self) -> int:
        counted = self.progress
        return max(counted.inserted + counted.updated + counted.skipped, self.own.served)

    @property
    def elsewhere(self) -> dict[str, int]:
        return {name: tasks for name, tasks in self.progress.holders.items() if name != self.me}


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. Without a plan, `sentence` says why there was nothing to do."""

    standing: Standing
    is_interrupted: bool
    sentence: Sentence | None = None
    troubles: tuple[Trouble, ...] = ()
    waits_for: str | None = None  # the plan has more, and this keeps it from going on

    @property
    def exit_code(self) -> int:
        if self.is_interrupted:
            return 130
        return 1 if self.standing.progress.failed or self.waits_for else 0


class View(Protocol):
    def show(self, standing: Standing) -> None: ...
    def trouble(self, trouble: Trouble) -> None: ...
    def stopping(self) -> None: ...


class Stopped(Exception):
    """Somebody wants to stop."""


class Harvest:
    """One trigger, worked through to its end. `stop` may be set at any time."""

    def __init__(self, desk: "HarvestDesk", trigger: "Trigger", view: View, stop: asyncio.Event) -> None:
        self._desk, self._trigger, self._view = desk, trigger, view
        self._asked_to_stop = stop
        self._halt = asyncio.Event()  # stop was asked for, or there is no point in going on
        self._standing = Standing()
        self._told: list[Trouble] = []

    async def run(self) -> Ended:
        async with self._desk.database.transaction() as tx:
            self._standing.started = await server_time(tx)
            for reason in sorted(_HOPELESS):  # somebody runs it again: perhaps the key has been put right
                await release_source(tx, self._trigger.provenance_code, reason)
        watches = [asyncio.create_task(self._watch()), asyncio.create_task(self._pass_on_stop())]
        sentence = waits_for = None
        try:
            sentence, waits_for = await self._work()
        except Stopped:
            waits_for = None if self._asked_to_stop.is_set() else self._standing.progress.resting_reason
        finally:
            for each in watches:
                each.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
        await self._look()
        failed = tuple(each for each in self._told if each.status == "FAILED")
        return Ended(self._standing, self._asked_to_stop.is_set(), sentence, failed, waits_for)

    async def _work(self) -> tuple[Sentence | None, str | None]:
        await self._look()
        if self._standing.plans:
            self._standing.phase, self._standing.done_before = "left", self._standing.progress.done
            await self._drain()
        self._standing.phase = "plan"
        planned = await self._unless_stopped(self._desk.planner.plan(self._trigger))
        if planned.plan_id is None:
            return planned.sentence, None
        return None, await self._carry_out(planned)

    async def _carry_out(self, planned: "Outcome") -> str | None:
        """A plan that did not fit into the queue is gone on with when there is room."""
        assert planned.plan_id is not None  # noqa: S101  the caller looked
        self._standing.plan_id = planned.plan_id
        self._standing.plans.add(planned.plan_id)
        while True:
            self._standing.phase = "work"
            await self._drain()
            if planned.status is not PlanStatus.PARTIAL:
                return None
            before = planned.tasks
            planned = await self._unless_stopped(self._desk.planner.go_on(planned.plan_id))
            if planned.status is PlanStatus.PARTIAL and planned.tasks == before:
                return str(planned.remarks.get("waiting") or "room in the queue")

    async def _drain(self) -> None:
        executor = self._desk.executor(self._standing.me, [self._trigger.provenance_code], self._hear)
        await executor.drain(self._halt)
        if self._halt.is_set():
            raise Stopped

    async def _unless_stopped(self, work: "Coroutine[Any, Any, T]") -> T:
        """Planning may be cut off anywhere: each of its steps may be the last one."""
        doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._halt.wait())
        try:
            await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise Stopped
            return doing.result()
        finally:
            for each in (doing, stopping):
                each.cancel()
            await asyncio.gather(doing, stopping, return_exceptions=True)

    # Watching --------------------------------------------------------------------------------------------------
    def _hear(self, note: "Note") -> None:
        """Between two looks the executor's word counts."""
        own, counts = self._standing.own, note.counts
        served = own.served + counts.inserted + counts.updated + counts.skipped
        self._standing.own = Progress(requests=own.requests + 1, served=served)
        self._standing.waited += note.waited
        self._view.show(self._standing)

    async def _pass_on_stop(self) -> None:
        await self._asked_to_stop.wait()
        self._view.stopping()
        self._halt.set()

    async def _watch(self) -> None:
        while True:
            try:
                await self._look()
            except PenstockError as away:
                raise_unless_unavailable(away)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        now = self._standing
        assert now.started is not None  # noqa: S101  set before anybody looks
        source = self._trigger.provenance_code
        async with self._desk.database.transaction() as tx:
            now.plans |= await overview.live_plans(tx, source)
            plans = sorted(now.plans)
            now.progress = await overview.progress_of(tx, source, plans, now.started)
            last = self._told[-1].run_id if self._told else 0
            fresh = await overview.troubles_of(tx, plans, now.started, last)
            now.seconds = (await server_time(tx) - now.started).total_seconds()
        for trouble in fresh:
            self._told.append(trouble)
            self._view.trouble(trouble)
        self._view.show(now)
        if now.progress.resting_reason in {*_HOPELESS, STANDIN_GONE}:
            self._halt.set()
