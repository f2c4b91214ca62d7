"""Claiming a task: fair over partitions, within every limit, without waiting for anybody.

A partition is a source, an endpoint and an operation. Three limits hold at the same time and over all executors: tasks
of the partition (C_max), of the source (where it allows only so many connections) and of everything (C_total). Each is
a set of rows in `ing_slot`; to claim a task is to lock a free slot of each, and the task, all with SKIP LOCKED. A slot
is free when no task is written in it, and it is freed where the task is let go, in the same transaction. So limits hold
exactly, claimers never wait for each other, and nothing is counted.

Which task: of the partitions that have one ready and a slot free, the most urgent priority; among equals the partition
that uses the smallest share of its slots; among those, by lot. A source with a million tasks therefore takes no more
than its turn. Within the partition: priority, time, age.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from penstock.harvest.executing import store
from penstock.harvest.states import RUN, TASK, RunStatus, TaskStatus
from penstock.kernel import leases
from penstock.kernel.db import Database, Tx
from penstock.kernel.leases import Leasable, Lease
from penstock.kernel.statemachine import Step, enter_query, moving

EVERYTHING = "*"
_MOST_SLOTS = 1000  # a limit above this is none
_READY = "status_code = 'QUEUED' and scheduled_at <= clock_timestamp()"
_OF_THE_TASK = ("provenance_code", "endpoint_name", "operation_code", "window_from", "window_to")  # in its runs too

TASKS = Leasable("ing_task", "id", ready=_READY, order="priority, scheduled_at, id")


@dataclass(frozen=True, slots=True)
class Held:
    """A task that is ours, and the run that was opened for it."""

    lease: Lease
    run_id: int

    @property
    def task(self) -> Mapping[str, Any]:
        return self.lease.row

    @property
    def task_id(self) -> int:
        return int(self.lease.key)


@dataclass(frozen=True, slots=True)
class Claimer:
    """Claims for one executor. `sources` narrows it to some; none: all."""

    database: Database
    owner: str
    total: int
    ttl: timedelta
    sources: Sequence[str] | None = None
    _slots_made: dict[str, int] = field(default_factory=dict)

    async def claim(self) -> Held | None:
        """One task, or none that we may run now."""
        async with self.database.transaction() as tx:
            candidates = await store.partitions_with_work(tx, self.sources)
            made = await self._make_slots(tx, candidates)
            held = await self._claim_from(tx, candidates)
        self._slots_made.update(made)
        return held

    async def _claim_from(self, tx: Tx, partitions: Sequence[Mapping[str, Any]]) -> Held | None:
        for partition in partitions:
            task = await store.lock_next_task(tx, partition, self._limits(partition))
            if task is not None:
                return await self._dispatch(tx, task)
        return None

    async def _dispatch(self, tx: Tx, task: Mapping[str, Any]) -> Held:
        """The lease, the status and the run. Everything is known already, so it is one trip to the server."""
        lease = leases.claimed(task, owner=self.owner, until=task["taken_at"] + self.ttl)
        task_id, run_id, token = task["id"], task["run_id"], lease["lease_token"]
        step = Step(
            str(task_id), TaskStatus.QUEUED, TaskStatus.DISPATCHED, by="executor", trigger="claimed", changes=lease
        )
        begun = Step(str(run_id), None, RunStatus.PLANNED, by="executor", trigger="claimed")
        run = {name: task[name] for name in _OF_THE_TASK}
        run |= {"run_id": run_id, "task_id": task_id, "attempt_no": token, "executor": self.owner}
        async with moving(tx, (TASK, step)):
            await tx.execute(*enter_query(RUN, begun, store.INSERT_RUN, run))
        return Held(Lease(task_id, token, {**task, **lease, "status_code": str(step.target)}), run_id)

    def _limits(self, partition: Mapping[str, Any]) -> dict[str, int]:
        source = partition["provenance_code"]
        own = f"{source}/{partition['endpoint_name']}/{partition['operation_code']}"
        limits = {EVERYTHING: self.total, source: partition["source_max"], own: partition["c_max"]}
        return {scope: limit for scope, limit in limits.items() if limit <= _MOST_SLOTS}

    async def _make_slots(self, tx: Tx, partitions: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        wanted = {scope: limit for partition in partitions for scope, limit in self._limits(partition).items()}
        missing = {scope: limit for scope, limit in wanted.items() if self._slots_made.get(scope, 0) < limit}
        if missing:
            await store.make_slots(tx, missing)
        return missing


async def begin(tx: Tx, held: Held) -> None:
    """The first request is about to be made."""
    task = Step(
        str(held.task_id), TaskStatus.DISPATCHED, TaskStatus.EXECUTING, by="executor", trigger="begun",
        guards={"lease_token": held.lease.token},
    )  # fmt: skip
    run = Step(str(held.run_id), RunStatus.PLANNED, RunStatus.RUNNING, by="executor", trigger="begun")
    async with moving(tx, (TASK, task), (RUN, run)):
        await store.note_start(tx, held.task_id)
