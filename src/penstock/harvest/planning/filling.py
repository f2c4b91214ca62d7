"""Cutting and queueing, a few hundred slices per transaction.

Killed at any line nothing is lost and nothing is queued twice. Estimates are made first, outside of any transaction;
then a transaction takes the lock of the namespace, subtracts again what is stored, what is being fetched and what this
plan has cut, and queues what is left of the chunk. Whoever goes on with the plan begins by the same subtraction.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from penstock.harvest import cursors
from penstock.harvest.planning import candidates, drafting, store, store_update, windows
from penstock.harvest.planning.drafting import Draft
from penstock.harvest.planning.estimates import PlanEstimates
from penstock.harvest.planning.job import Job
from penstock.harvest.planning.quota import share_of
from penstock.harvest.planning.slicing import Grid, affordable, id_stretches
from penstock.harvest.planning.trigger import Allowance, Candidates
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.slices import Dimension, Span
from penstock.harvest.states import SLICE, TASK, PlanStatus, SliceStatus, TaskStatus
from penstock.kernel import failpoints
from penstock.kernel.db import Database, Tx
from penstock.kernel.statemachine import Crowd, enter_many

CHUNK = 500
_ID_CHUNK = 20  # slices of ids are long


@dataclass(frozen=True, slots=True)
class Room:
    """What the queue and the quota have room for."""

    slots: int
    budget: int | None
    at_least: int

    def has(self, requests: int) -> bool:
        """Room for a slice that asks so often."""
        return self.slots > 0 and (self.budget is None or self.budget >= requests or self.at_least > 0)


@dataclass(frozen=True, slots=True)
class Filled:
    """How far it went; `waiting` are the requests of the next slice, which found no room."""

    waiting: int | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filler:
    database: Database
    allowance: Allowance
    settings: HarvestSettings

    async def fill(self, job: Job, estimates: PlanEstimates) -> Filled:
        if job.strategy is Dimension.ID:
            return await self._fill_ids(job)
        warnings: list[str] = []
        waiting = None
        async for chunk in _chunks(self._drafts(job, estimates)):
            warnings += [_warning(draft) for draft in chunk if draft.is_over]
            waiting = await self._queue(job, chunk)
            failpoints.reach("plan.queued")
            if waiting is not None:
                break
        return Filled(waiting, tuple(warnings[:20]))

    async def _drafts(self, job: Job, estimates: PlanEstimates) -> AsyncIterator[Draft]:
        if job.strategy is Dimension.TIME:
            async with self.database.transaction() as tx:
                spans = await self.to_do(tx, job)
            async for draft in drafting.window_drafts(job.spec, spans, estimates):
                yield draft
            return
        if job.strategy is Dimension.PAGE:
            drafts = await drafting.page_drafts(job.spec, estimates)
        else:
            async with self.database.transaction() as tx:
                cursor = await cursors.find(tx, job.name)
            drafts = [drafting.scan_draft(cursor.value if cursor else None)]
        for draft in drafts:
            yield draft

    async def to_do(self, tx: Tx, job: Job) -> list[Span]:
        """What of the plan's window nobody has stored, fetches, or has cut for this plan."""
        if job.window is None:
            return []
        # First who is busy, then what is stored: a task that ends in between must not be in neither of them.
        busy = await store.live_windows(tx, job.partition, job.name.namespace)
        cut = await store.sliced_windows(tx, job.plan_id)
        cursor = await cursors.find(tx, job.name)
        rereads = job.rereads
        if rereads is not None and (cursor is None or cursor.instant != rereads.end):
            rereads = None  # another plan has gone on from there, with an overlap of its own
        left = windows.to_do(job.window, rereads, cursor.covered if cursor else (), busy + cut)
        return windows.minus(windows.on_steps(left, Grid.of(job.spec.window), job.window), cut)

    async def room(self, tx: Tx, job: Job, left: int | None, *, lock: bool = False) -> Room:
        """`left` of the quota is asked for before the transaction."""
        stock = await store.inventory(tx, job.partition, lock=lock)
        budget, at_least = None, 0
        if left is not None:
            budget = left - await store.promised_requests(tx, job.spec.provenance_code)
            at_least = 1 if stock.live == 0 and left > 0 else 0  # a slice larger than the quota must get its turn too
        return Room(max(0, job.spec.planning.queue_limit - stock.queued), budget, at_least)

    async def left(self, job: Job) -> int | None:
        return share_of(job.spec, await self.allowance.left(job.spec))

    async def _queue(self, job: Job, drafts: Sequence[Draft]) -> int | None:
        """Queue what is still to do of these; returns what the first of them asks that found no room."""
        left = await self.left(job)
        async with self.database.transaction() as tx:
            if not await self._begin(tx, job):
                return None
            if job.strategy is Dimension.TIME:
                spans = await self.to_do(tx, job)
                drafts = [part for draft in drafts for part in drafting.clipped(draft, spans)]
            elif await store.rival_plan(tx, job.partition, job.name.namespace, job.plan_id) is not None:
                return None
            return await self._put(tx, job, drafts, await self.room(tx, job, left, lock=True))

    async def _fill_ids(self, job: Job) -> Filled:
        planning = job.spec.planning
        while True:
            left = await self.left(job)
            async with self.database.transaction() as tx:
                if not await self._begin(tx, job):
                    return Filled(None)
                room = await self.room(tx, job, left, lock=True)
                first = await store_update.next_position(tx, job.plan_id)
                most = self._most_candidates(job) - first
                limit = min(most, min(room.slots, _ID_CHUNK) * planning.ids_per_slice)
                chosen = await candidates.choose_for(tx, job, max(limit, min(most, 1)))
                if not chosen:
                    return Filled(None)
                stretches = id_stretches(chosen, first, planning.ids_per_slice, planning.id_buckets,
                                         by_age=job.name.key == "refresh_checked_at")  # fmt: skip
                waiting = await self._put(tx, job, [drafting.id_draft(each) for each in stretches], room)
            failpoints.reach("plan.queued")
            if waiting is not None:
                return Filled(waiting)

    def _most_candidates(self, job: Job) -> int:
        given = (job.candidates or Candidates()).limit
        return self.settings.update_limit if given is None else given

    async def _begin(self, tx: Tx, job: Job) -> bool:
        """Take the lock; false when somebody else has ended the plan."""
        await store.lock_namespace(tx, job.partition, job.lock)
        row = await store.lock_plan(tx, job.plan_id)
        return PlanStatus(row["status_code"]) is PlanStatus.SLICING

    async def _put(self, tx: Tx, job: Job, drafts: Sequence[Draft], room: Room) -> int | None:
        asks = [drafting.expected_requests(job.spec, draft) for draft in drafts]
        taken = drafts[: min(room.slots, affordable(asks, room.budget, at_least=room.at_least))]
        if taken:
            await write_slices(tx, job, taken)
            failpoints.reach("plan.writing")
        return asks[len(taken)] if len(taken) < len(drafts) else None


async def write_slices(tx: Tx, job: Job, drafts: Sequence[Draft]) -> list[int]:
    """Slices and their tasks; those that the plan has already are left alone. Returns the ids of the new slices."""
    new = [drafting.written(job.drafting, draft) for draft in drafts]
    rows = await store.insert_slices(tx, job.owner, new)
    numbers = {row["slice_signature_hash"]: row for row in rows}
    pairs = [(numbers[each.signature]["id"], each) for each in new if each.signature in numbers]
    tasks = await store.insert_tasks(tx, job.owner, pairs)
    told = ("planner", "sliced", "plan", str(job.plan_id))
    sliced = {str(row["id"]): {"slice_id": row["id"], "slice_no": row["slice_no"]} for row in rows}
    queued = {str(row["id"]): {"task_id": row["id"], "slice_id": row["slice_id"]} for row in tasks}
    await enter_many(tx, SLICE, Crowd(SliceStatus.READY, *told, sliced))
    await enter_many(tx, TASK, Crowd(TaskStatus.QUEUED, *told, queued))
    await candidates.mark(tx, job, [each for draft in drafts for each in draft.ids])
    await store.note_progress(tx, job.plan_id)
    return [row["id"] for row in rows]


async def _chunks(drafts: AsyncIterator[Draft]) -> AsyncIterator[list[Draft]]:
    chunk: list[Draft] = []
    async for draft in drafts:
        chunk.append(draft)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _warning(draft: Draft) -> str:
    start = draft.span and draft.span.start.isoformat()
    return f"the window from {start} holds about {draft.estimate} results, more than the source can be paged through"
