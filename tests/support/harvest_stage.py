"""Where histories happen: real PostgreSQL, Redis, HTTP, planner and executors; time and order are the history's.

`play` carries out a history and judges it after each step and at its end. Executors are driven task by task; one that
dies leaves its lease behind, one that sleeps wakes up when its task has gone to another.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.harvest.desk import HarvestDesk
from penstock.harvest.executing import Executor
from penstock.harvest.executing.settle import take_from_the_silent
from penstock.harvest.planning import CandidateKind, Candidates, Trigger
from penstock.harvest.registry.apply import apply
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.spec import Operation
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import RateGate
from penstock.kernel.redis import Keys, Redis
from tests.support.harvest_histories import History, Step
from tests.support.harvest_verdict import Verdict
from tests.support.harvest_world import START, World, WorldClock, WorldServer

_RUN = re.compile(r"ing-(\d+)-\d+")
_ATTEMPTS = 3
_QUIET = {"pass", "break", "mend", "change", "delete"}  # they change nothing of ours
_EMPTY = ";".join(
    f"delete from {table}"
    for table in (
        "ing_task", "ing_task_run", "ing_task_run_batch", "ing_plan", "ing_plan_slice", "ing_schedule_instance",
        "ing_partition", "ing_slot", "ing_cursor", "ing_cursor_event", "ing_record", "ing_quarantine", "ing_signal",
        "state_transitions", "outbox_events",
    )
)  # fmt: skip


class DrivenExecutor(Executor):
    """Takes as many tasks as it is told to, one after the other."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.stop = asyncio.Event()
        self.current: asyncio.Task[None] | None = None

    async def take(self, tasks: int) -> None:
        for _ in range(tasks):
            held = await self._claimer.claim()
            if held is None or self.stop.is_set():
                return
            self._held[held.task_id] = held
            self.current = asyncio.create_task(self._carry_out(held, self.stop))
            await asyncio.wait([self.current])
            if self.current.cancelled():
                return

    def holds(self, run_id: int) -> bool:
        return any(held.run_id == run_id for held in self._held.values())

    def die(self) -> None:
        if self.current is not None:
            self.current.cancel()


@dataclass
class Stage:
    database: Database
    desk: HarvestDesk
    server: WorldServer
    clock: WorldClock
    played: int = 0
    counted: dict[str, int] = field(default_factory=dict)

    async def play(self, history: History) -> None:
        """To its end. Raises AssertionError with what is wrong."""
        await self._play(history, is_whole=True)

    async def stand(self, history: History) -> None:
        """As `play`, but it ends with the last step."""
        await self._play(history, is_whole=False)

    async def _play(self, history: History, *, is_whole: bool) -> None:
        self.played += 1
        self.clock.moment = START + timedelta(seconds=3 * history.shape.unit)
        async with self.database.transaction() as tx:
            await tx.execute(_EMPTY)
        play = Play(self, history, f"m{self.played}", World(history.shape, self.clock))
        try:
            await play.run(is_whole=is_whole)
        finally:
            self.server.hook = None
            for name, number in play.verdict.counted.items():
                self.counted[name] = self.counted.get(name, 0) + number


class Play:
    """One history on the stage."""

    def __init__(self, stage: Stage, history: History, code: str, world: World) -> None:
        self.stage, self.history, self.code, self.world = stage, history, code, world
        self.shape = history.shape
        self.verdict = Verdict(stage.database, world, code)
        self._executors: list[DrivenExecutor] = []
        self._requests = 0
        self._trouble: dict[int, Step] = {}
        self._compiled: dict[Operation, Any] = {}
        self._planner = replace(stage.desk.planner, load_and_compile=self._compile)
        stage.server.world, stage.server.hook = world, self._on_request

    async def run(self, *, is_whole: bool) -> None:
        await self._apply(self.shape.page_size)
        for step in self.history.steps:
            await self._do(step)
            if step.what not in _QUIET:
                await self.verdict.after_step(str(step))
        if is_whole:
            await self._finish()

    async def _do(self, step: Step) -> None:
        act = {
            "pass": self._pass, "change": self._change, "delete": self._change, "plan": self._plan,
            "backfill": self._backfill, "update": self._update, "apply": self._apply, "break": self._break,
            "mend": self._mend, "work": self._work,
        }[step.what]  # fmt: skip
        if step.what in {"change", "delete"}:
            await self._change(*step.args, is_deleted=step.what == "delete")
        elif step.what == "work":
            await self._work(*step.args, trouble=step.trouble)
        else:
            await act(*step.args)

    # The source ------------------------------------------------------------------------------------------------
    async def _pass(self, seconds: int) -> None:
        self.stage.clock.moment += timedelta(seconds=seconds)

    async def _change(self, ident: str, late: int, *, is_deleted: bool = False) -> None:
        """Counted pages that shift while they are read are noticed by the total alone: see `_may_shift`."""
        if is_deleted and ident not in self.world.records:
            return
        if self.shape.shifts and not await self._may_shift(late):
            return
        self.world.change(ident, late, is_deleted=is_deleted)

    async def _may_shift(self, late: int) -> bool:
        """A source that counts pages and names no total must hold still while it is read; nor can one record that
        leaves be told from another that takes its place in the total."""
        if self.shape.has_total and not self.world.is_loose(late):
            return True
        [row] = await self.rows(
            "select count(*) as n from ing_task t join ing_task_run r on r.task_id = t.id where r.checkpoint is not"
            " null and t.status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING')"
        )
        return row["n"] == 0 and not any(each.current for each in self._executors)

    async def _apply(self, page_size: int) -> None:
        document = self.shape.document(self.code, self.stage.server.url, page_size)
        async with self.stage.database.transaction() as tx:
            await apply(tx, document, "model")
        self._compiled.clear()

    async def _compile(self, trigger: Trigger) -> Any:
        """Once for each version of the file: it is what takes longest."""
        if trigger.operation not in self._compiled:
            self._compiled[trigger.operation] = await self.stage.desk.compile(trigger)
        return self._compiled[trigger.operation]

    async def _break(self, start: int, end: int, status: int) -> None:
        self.world.broken.append((START + timedelta(seconds=start), START + timedelta(seconds=end), status))

    async def _mend(self) -> None:
        self.world.broken.clear()

    # The harvest -----------------------------------------------------------------------------------------------
    async def _plan(self) -> bool:
        outcome = await self._planner.plan(Trigger(self.code))
        return outcome.plan_id is not None and outcome.tasks > 0

    async def _backfill(self, since: int) -> None:
        moment = START + timedelta(seconds=since)
        try:
            await self._planner.plan(
                Trigger(self.code, operation=Operation.BACKFILL, since=moment, until=self.stage.clock.now())
            )
        except PenstockError as refused:
            if refused.code.code != "HARVEST_WINDOW_INVALID":
                raise

    async def _update(self) -> None:
        await self._planner.plan(Trigger(self.code, operation=Operation.UPDATE))

    async def _signalled(self) -> None:
        """What the source refused by itself is asked for again."""
        wanted = Candidates(CandidateKind.SIGNALS)
        await self._planner.plan(Trigger(self.code, operation=Operation.UPDATE, candidates=wanted))

    async def _work(self, tasks: int, executors: int, lot: int, trouble: dict[int, Step] | None = None) -> None:
        await self._bury_the_silent()
        await self._shuffle(lot)
        self._requests, self._trouble = 0, dict(trouble or {})
        self._executors = [
            DrivenExecutor(self.stage.desk.executor(f"e{number}")._tools, owner=f"e{number}", sources=[self.code])
            for number in range(executors)
        ]
        await asyncio.gather(*(each.take(tasks) for each in self._executors))
        self._executors, self._trouble = [], {}

    async def _shuffle(self, lot: int) -> None:
        """Any order, and nobody need wait for a back-off."""
        async with self.stage.database.transaction() as tx:
            await tx.execute(
                "update ing_task set scheduled_at = now() - interval '1 s', priority = (n * 7919 + %s) %% 31 from"
                " (select id as i, row_number() over (order by id) as n from ing_task) numbered"
                " where id = i and status_code = 'QUEUED'",
                (lot,),
            )
            await tx.execute("update ing_partition set not_before = '-infinity'")

    async def _bury_the_silent(self) -> None:
        async with self.stage.database.transaction() as tx:
            await tx.execute("update ing_task set leased_until = now() - interval '1 s' where leased_until is not null")
        await take_from_the_silent(self.stage.database, most_attempts=_ATTEMPTS)

    async def rows(self, query: str) -> list[dict[str, Any]]:
        async with self.stage.database.transaction() as tx:
            return await fetch_all(tx, query)

    # Trouble ---------------------------------------------------------------------------------------------------
    async def _on_request(self, head: str) -> tuple[int, bytes] | None:
        found = _RUN.search(head)
        if found is None:
            return None
        self._requests += 1
        step = self._trouble.pop(self._requests, None)
        if step is None:
            return None
        executor = next((each for each in self._executors if each.holds(int(found[1]))), None)
        if step.what == "repeat":
            return await self._repeat(head, *step.args)
        return await self._meet(step, executor)

    async def _repeat(self, head: str, *change: Any) -> tuple[int, bytes] | None:
        if change:
            await self._change(*change)
        target = urlsplit(head.split(" ", 2)[1])
        answer = self.world.page_before(target.path, dict(parse_qsl(target.query)))
        return None if answer is None else (answer[0], json.dumps(answer[1]).encode())

    async def _meet(self, step: Step, executor: DrivenExecutor | None) -> tuple[int, bytes] | None:
        if step.what in {"500", "400"}:
            return int(step.what), b"{}"
        if step.what == "torn":
            return 200, b'{"items": [{"id": "never'
        if executor is not None and step.what == "die":
            executor.die()
        elif executor is not None and step.what == "die answered":
            asyncio.get_running_loop().call_later(0.002, executor.die)
        elif executor is not None and step.what == "stop":
            executor.stop.set()
        elif step.what == "sleep":
            await self._overtake()
        elif step.what in {"change", "delete", "pass"}:
            await self._do(step)
        return None

    async def _overtake(self) -> None:
        """While this request is on its way the lease ends, and another executor does all the work."""
        await self._bury_the_silent()
        await self._shuffle(0)
        other = DrivenExecutor(self.stage.desk.executor("x")._tools, owner="other", sources=[self.code])
        await other.take(20)

    # The end ---------------------------------------------------------------------------------------------------
    async def _finish(self) -> None:
        """Nothing is broken any more and everything has had its time."""
        self.world.broken.clear()
        await self._pass(self.shape.lag + max(0, self.shape.behind) + 3 * self.shape.unit + 1)
        await self._drain(self._plan)
        await self.verdict.at_the_end()
        if any(version.is_loose for version in self.world.current().values()):
            await self._drain(lambda: self._backfill(0))
        await self._drain(self._signalled)
        await self.verdict.exactly()

    async def _drain(self, plan: Any) -> None:
        for _ in range(12):
            is_more = await plan()
            for _ in range(20):
                await self._work(50, 1, 0)
                [row] = await self.rows("select count(*) as n from ing_task where leased_until is not null or"
                                        " status_code = 'QUEUED'")  # fmt: skip
                if not row["n"]:
                    break
            else:
                raise AssertionError("tasks without end")
            await self.verdict.after_step("drained")
            if not is_more:
                return
        raise AssertionError("plans without end")


@asynccontextmanager
async def opened(database: Database, redis: Redis) -> AsyncIterator[Stage]:
    clock, server = WorldClock(), WorldServer()
    await server.start()
    desk = HarvestDesk(
        database, RateGate(redis, Keys("model")), HarvestSettings(attempts=_ATTEMPTS, total=1000), clock
    )  # fmt: skip
    try:
        yield Stage(database, desk, server, clock)
    finally:
        await desk.close()
        await server.stop()
