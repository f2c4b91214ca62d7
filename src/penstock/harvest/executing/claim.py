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

from psycopg import sql

from penstock.harvest.executing import store
from penstock.harvest.states import RUN, TASK, RunStatus, TaskStatus
from penstock.kernel import leases
from penstock.kernel.db import Database, Tx
from penstock.kernel.leases import Leasable, Lease
from penstock.kernel.statemachine import Step, enter, move

EVERYTHING = "*"
_MOST_SLOTS = 1000  # a limit above this is none
_READY = "status_code = 'QUEUED' and scheduled_at <= clock_timestamp()"

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
            for partition in candidates:
                if held := await self._claim_from(tx, partition):
                    return held
        return None

    async def _claim_from(self, tx: Tx, partition: Mapping[str, Any]) -> Held | None:
        limits = self._limits(partition)
        await self._make_slots(tx, limits)
        slots = await store.lock_free_slots(tx, limits)
        if slots is None:
            return None
        found = await leases.claim(tx, _within(partition), owner=self.owner, ttl=self.ttl)
        if not found:
            return None
        lease = found[0]
        await store.occupy(tx, slots, lease.key)
        return await _dispatch(tx, lease, self.owner)

    def _limits(self, partition: Mapping[str, Any]) -> dict[str, int]:
        source = partition["provenance_code"]
        own = f"{source}/{partition['endpoint_name']}/{partition['operation_code']}"
        limits = {EVERYTHING: self.total, source: partition["source_max"], own: partition["c_max"]}
        return {scope: limit for scope, limit in limits.items() if limit <= _MOST_SLOTS}

    async def _make_slots(self, tx: Tx, limits: Mapping[str, int]) -> None:
        for scope, limit in limits.items():
            if self._slots_made.get(scope, 0) < limit:
                await store.make_slots(tx, scope, limit)
                self._slots_made[scope] = limit


def _within(partition: Mapping[str, Any]) -> Leasable:
    own = " and ".join(
        f"{column} = {sql.Literal(partition[column]).as_string()}"
        for column in ("provenance_code", "endpoint_name", "operation_code")
    )
    return Leasable(TASKS.table, TASKS.key, ready=f"{own} and {_READY}", order=TASKS.order)


async def _dispatch(tx: Tx, lease: Lease, owner: str) -> Held:
    row = await move(
        tx, TASK, Step(str(lease.key), TaskStatus.QUEUED, TaskStatus.DISPATCHED, by="executor", trigger="claimed")
    )
    run_id = await store.insert_run(tx, row, attempt_no=lease.token, executor=owner)
    await enter(tx, RUN, Step(str(run_id), None, RunStatus.PLANNED, by="executor", trigger="claimed"))
    return Held(Lease(lease.key, lease.token, row), run_id)


async def begin(tx: Tx, held: Held) -> None:
    """The first request is about to be made."""
    await move(
        tx,
        TASK,
        Step(
            str(held.task_id), TaskStatus.DISPATCHED, TaskStatus.EXECUTING, by="executor", trigger="begun",
            guards={"lease_token": held.lease.token},
        ),
    )  # fmt: skip
    await store.note_start(tx, held.task_id)
    await move(tx, RUN, Step(str(held.run_id), RunStatus.PLANNED, RunStatus.RUNNING, by="executor", trigger="begun"))
