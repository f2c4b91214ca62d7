"""The planner: a trigger becomes a plan, the plan slices, each slice a task.

Invariant: every step is a transaction of its own and may be the last one. A trigger with a key makes one plan however
often it comes; a plan that was left in the middle is gone on with, or the next plan finds its windows still to do.
Nothing here waits for a source inside a transaction.
"""

from dataclasses import dataclass, field
from typing import Any

import structlog

from penstock.harvest import cursors
from penstock.harvest.planning import candidates, drafting, remarks, store, windows
from penstock.harvest.planning.estimates import PlanEstimates
from penstock.harvest.planning.filling import Filled, Filler
from penstock.harvest.planning.job import Job, cursor_of, harvest_cursor_of, job_of
from penstock.harvest.planning.preview import preview
from penstock.harvest.planning.quota import DeclaredQuota
from penstock.harvest.planning.store_update import Choice
from penstock.harvest.planning.trigger import (
    Allowance,
    Candidates,
    Compiled,
    Estimator,
    LoadAndCompile,
    Outcome,
    Preview,
    Trigger,
)
from penstock.harvest.planning.windows import Stretch, Wish
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.slices import Dimension
from penstock.harvest.spec import Operation, Spec
from penstock.harvest.states import PLAN, PlanStatus
from penstock.kernel import error_codes, failpoints
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.db import Database, Tx
from penstock.kernel.errors import Kind, PenstockError, Sentence
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.statemachine import Step, enter, move

log = structlog.get_logger(__name__)

_REFUSALS = (Kind.INVALID, Kind.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class Aim:
    """What a trigger comes to, before anything is written."""

    compiled: Compiled
    name: cursors.CursorName
    strategy: Dimension
    stretch: Stretch | None


@dataclass(frozen=True)
class Planner:
    """`plan` for a trigger, `preview` to see what it would do, `go_on` with a plan that has more to slice."""

    database: Database
    load_and_compile: LoadAndCompile
    estimator: Estimator
    settings: HarvestSettings
    clock: Clock = field(default_factory=SystemClock)
    allowance: Allowance = field(default_factory=DeclaredQuota)

    @property
    def _filler(self) -> Filler:
        return Filler(self.database, self.allowance, self.settings)

    async def plan(self, trigger: Trigger) -> Outcome:
        instance_id, known = await self._instance(trigger)
        failpoints.reach("plan.triggered")
        if isinstance(known, int):
            return await self.go_on(known)
        if known is not None:
            return Outcome(None, 0, 0, None, {}, known)
        try:
            aim = await self._aim(trigger, instance_id)
        except PenstockError as failure:
            if failure.kind in _REFUSALS:
                await self._refuse(instance_id, trigger, failure)
            raise
        if isinstance(aim, Sentence):
            return await self._nothing(instance_id, aim)
        plan_id = await self._draft(trigger, instance_id, aim)
        failpoints.reach("plan.drafted")
        return await self.go_on(plan_id)

    async def go_on(self, plan_id: int) -> Outcome:
        """Slice what the plan has left, as far as there is room. For a plan that is ready: what came of it."""
        job = await self._job(plan_id)
        if await self._begin(job):
            failpoints.reach("plan.slicing")
            estimates = PlanEstimates(self.estimator, job.compiled, self.settings.count_calls)
            try:
                filled = await self._filler.fill(job, estimates)
            except PenstockError as failure:
                if failure.kind is not Kind.UNAVAILABLE:
                    await self._fail(job, failure)
                raise
            failpoints.reach("plan.filled")
            await self._end(job, filled, estimates.notes)
        return await self._outcome(plan_id)

    async def preview(self, trigger: Trigger) -> Preview:
        """Asks the source for estimates; writes nothing."""
        return await preview(self, trigger)

    async def aim_at(self, tx: Tx, compiled: Compiled, trigger: Trigger, instance_id: int) -> Aim | Sentence:
        """Which stretch, in which namespace; a sentence when there is nothing to do."""
        spec = compiled.spec
        strategy, name = drafting.strategy_of(spec), cursor_of(spec, trigger, instance_id)
        if spec.operation is Operation.UPDATE:
            candidates.check_can_fetch_by_id(spec)
            return await self._aim_at_records(tx, Aim(compiled, name, strategy, None), trigger)
        if strategy is not Dimension.TIME:
            return await self._aim_at_all(tx, Aim(compiled, name, strategy, None))
        behind = await store.clock_behind(tx, store.partition_of(spec))
        wish = Wish(trigger.since, trigger.until, self.clock.now(), behind)
        stretch: Stretch | Sentence
        if spec.operation is Operation.BACKFILL:
            stretch = windows.backfill_stretch(spec, wish, await cursors.find(tx, harvest_cursor_of(spec)))
        else:
            stretch = windows.harvest_stretch(spec, wish, await cursors.find(tx, name))
        if isinstance(stretch, Sentence):
            return stretch
        return await self._with_work(tx, Aim(compiled, name, strategy, stretch))

    async def _aim(self, trigger: Trigger, instance_id: int) -> Aim | Sentence:
        compiled = await self.load_and_compile(trigger)
        async with self.database.transaction() as tx:
            await store.compiled_instance(tx, instance_id, compiled.spec.endpoint_name, compiled.expr_proto_hash)
            return await self.aim_at(tx, compiled, trigger, instance_id)

    async def _with_work(self, tx: Tx, aim: Aim) -> Aim | Sentence:
        assert aim.stretch is not None  # noqa: S101  windows of time have one
        partition, namespace = store.partition_of(aim.compiled.spec), aim.name.namespace
        busy = await store.live_windows(tx, partition, namespace)  # before what is stored, as where it is queued
        cursor = await cursors.find(tx, aim.name)
        stored = cursor.covered if cursor else ()
        if not windows.to_do(aim.stretch.window, aim.stretch.rereads, stored, busy):
            return remarks.ALL_QUEUED if busy else remarks.ALL_STORED
        return await self._unless_full(tx, aim)

    async def _aim_at_all(self, tx: Tx, aim: Aim) -> Aim | Sentence:
        spec = aim.compiled.spec
        if spec.operation is Operation.BACKFILL:
            raise PenstockError(
                error_codes.HARVEST_WINDOW_INVALID, reason="the source has no windows of time",
                advice={"zh": "该来源没有时间窗，harvest 会读取全部", "en": "a harvest of it reads everything"},
            )  # fmt: skip
        if await store.rival_plan(tx, store.partition_of(spec), aim.name.namespace, 0) is not None:
            return remarks.ALL_QUEUED
        return await self._unless_full(tx, aim)

    async def _aim_at_records(self, tx: Tx, aim: Aim, trigger: Trigger) -> Aim | Sentence:
        spec, wanted = aim.compiled.spec, trigger.candidates or Candidates()
        choice = Choice(spec.provenance_code, spec.endpoint_name, 0, 1)
        found = await candidates.choose(tx, spec, wanted, choice, aim.compiled.expr_proto_hash)
        return aim if found else remarks.NO_CANDIDATES

    async def _unless_full(self, tx: Tx, aim: Aim) -> Aim | Sentence:
        """A plan that could not queue anything is worth having once, not at every trigger."""
        spec = aim.compiled.spec
        partition = store.partition_of(spec)
        stock = await store.inventory(tx, partition)
        if stock.queued < spec.planning.queue_limit:
            return aim
        waiting = await store.waiting_plan(tx, partition, aim.name.namespace)
        return aim if waiting is None else remarks.queue_full(waiting)

    async def _instance(self, trigger: Trigger) -> tuple[int, int | Sentence | None]:
        """The trigger's row; and what came of it, if it was here before."""
        async with self.database.transaction() as tx:
            instance_id = await store.insert_instance(tx, remarks.instance_columns(trigger))
            row = await store.lock_instance(tx, instance_id)
        said = row["record_remarks"].get("sentence")
        return instance_id, row["plan_id"] or (Sentence(**said) if said else None)

    async def _refuse(self, instance_id: int, trigger: Trigger, failure: PenstockError) -> None:
        noted = remarks.refusal(failure)
        async with self.database.transaction() as tx:
            await store.note_instance(tx, instance_id, trigger.endpoint_name, noted)
            about = {"source": trigger.provenance_code, "operation": trigger.operation, "code": failure.code.code}
            await announce(tx, Event("trigger.refused", "trigger", str(instance_id), about))
        log.warning("plan.refused", source=trigger.provenance_code, code=failure.code.code)

    async def _nothing(self, instance_id: int, sentence: Sentence) -> Outcome:
        said = {"sentence": {"zh": sentence.zh, "en": sentence.en}}
        async with self.database.transaction() as tx:
            await store.note_instance(tx, instance_id, None, said)
        return Outcome(None, 0, 0, None, {}, sentence)

    async def _draft(self, trigger: Trigger, instance_id: int, aim: Aim) -> int:
        """The plan's row, or the one that the same trigger has made meanwhile."""
        spec = aim.compiled.spec
        async with self.database.transaction() as tx:
            instance = await store.lock_instance(tx, instance_id)
            if instance["plan_id"] is not None:
                return int(instance["plan_id"])
            columns = remarks.plan_columns(spec, trigger, instance_id, aim.stretch)
            plan_id = await store.insert_plan(
                tx, {**columns, **remarks.cursor_columns(aim.name), **remarks.snapshot_columns(aim.compiled)}
            )
            step = Step(str(plan_id), None, PlanStatus.DRAFT, "planner", "triggered", payload=_about(spec))
            await enter(tx, PLAN, step)
            await cursors.open_cursor(tx, aim.name, aim.stretch.origin if aim.stretch else None)
            await store.upsert_partition(tx, spec)
            failpoints.reach("plan.drafting")
        return plan_id

    async def _job(self, plan_id: int) -> Job:
        async with self.database.transaction() as tx:
            row = await store.plan(tx, plan_id)
        if row is None:
            raise PenstockError(error_codes.PLAN_UNKNOWN, plan_id=plan_id)
        return job_of(row)

    async def _begin(self, job: Job) -> bool:
        """False: there is nothing to slice, or no room for it."""
        left = await self._filler.left(job)
        async with self.database.transaction() as tx:
            await store.lock_namespace(tx, job.partition, job.lock)
            row = await store.lock_plan(tx, job.plan_id)
            status, waiting = PlanStatus(row["status_code"]), row["record_remarks"].get("waiting") or 0
            if status is PlanStatus.PARTIAL and not (await self._filler.room(tx, job, left)).has(waiting):
                return False
            if status in (PlanStatus.DRAFT, PlanStatus.PARTIAL):
                await move(tx, PLAN, _step(job, status, PlanStatus.SLICING, "slicing", {}))
            await store.note_progress(tx, job.plan_id)
        return status in (PlanStatus.DRAFT, PlanStatus.PARTIAL, PlanStatus.SLICING)

    async def _end(self, job: Job, filled: Filled, notes: list[str]) -> None:
        async with self.database.transaction() as tx:
            row = await store.lock_plan(tx, job.plan_id)
            if PlanStatus(row["status_code"]) is not PlanStatus.SLICING:
                return  # somebody else has ended it
            told = remarks.summary(job, row["record_remarks"], await store.totals(tx, job.plan_id), filled, notes)
            target = PlanStatus.READY if filled.waiting is None else PlanStatus.PARTIAL
            changes = {"record_remarks": told, "updated_at": self.clock.now()}
            await move(tx, PLAN, _step(job, PlanStatus.SLICING, target, "sliced", changes))
        log.info("plan.sliced", plan=job.plan_id, source=job.spec.provenance_code, status=target)

    async def _fail(self, job: Job, failure: PenstockError) -> None:
        async with self.database.transaction() as tx:
            row = await store.lock_plan(tx, job.plan_id)
            if PlanStatus(row["status_code"]) is PlanStatus.SLICING:
                told = {**row["record_remarks"], **remarks.refusal(failure)}
                step = _step(job, PlanStatus.SLICING, PlanStatus.FAILED, "failed", {"record_remarks": told})
                await move(tx, PLAN, step)

    async def _outcome(self, plan_id: int) -> Outcome:
        async with self.database.transaction() as tx:
            row = await store.plan(tx, plan_id)
            totals = await store.totals(tx, plan_id)
        assert row is not None  # noqa: S101  plans are never taken away
        status = PlanStatus(row["status_code"])
        return Outcome(plan_id, totals["slices"], totals["tasks"], status, row["record_remarks"])


def _step(job: Job, source: PlanStatus, target: PlanStatus, trigger: str, changes: dict[str, Any]) -> Step:
    return Step(
        str(job.plan_id), source, target, "planner", trigger, payload=_about(job.spec), changes=changes
    )  # fmt: skip


def _about(spec: Spec) -> dict[str, Any]:
    return {"source": spec.provenance_code, "endpoint": spec.endpoint_name, "operation": spec.operation}
