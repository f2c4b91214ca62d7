"""What is in the queue, and an executor that only says how a task ended."""

import itertools
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from penstock.harvest import cursors
from penstock.harvest.cursors import Closing, CursorName, Lineage
from penstock.harvest.planning.job import job_of
from penstock.harvest.slices import Span
from penstock.harvest.states import TASK, TaskStatus
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.statemachine import Step, move


@dataclass
class Desk:
    database: Database

    async def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        async with self.database.transaction() as tx:
            return await fetch_all(tx, query, values)

    async def one(self, query: str, *values: Any) -> Any:
        [row] = await self.rows(query, *values)
        return next(iter(row.values()))

    async def run(self, query: str, *values: Any) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(query, values)

    async def tasks(self, status: str | None = None) -> list[dict[str, Any]]:
        """In the order in which they would be claimed."""
        return await self.rows(
            "select * from ing_task where %s::text is null or status_code = %s order by priority, scheduled_at, id",
            status, status,
        )  # fmt: skip

    async def windows(self) -> list[Span]:
        """Of every task there ever was."""
        return sorted(Span(task["window_from"], task["window_to"]) for task in await self.tasks())

    async def name(self, plan_id: int) -> CursorName:
        [row] = await self.rows("select * from ing_plan where id = %s", plan_id)
        return job_of(row).name

    async def settle(self, task: dict[str, Any], outcome: TaskStatus) -> None:
        """As an executor does it: the cursor is told of what is stored."""
        async with self.database.transaction() as tx:
            steps = [TaskStatus.QUEUED, TaskStatus.DISPATCHED, TaskStatus.EXECUTING, outcome]
            for before, after in itertools.pairwise(steps):
                await move(tx, TASK, Step(task["id"], before, after, "executor", "test"))
            if outcome is TaskStatus.SUCCEEDED and task["window_from"]:
                span = Span(task["window_from"], task["window_to"])
                name = await self.name(task["plan_id"])
                await cursors.close_span(tx, name, span, Closing(Lineage(plan_id=task["plan_id"], task_id=task["id"])))

    async def settle_all(self, outcome: TaskStatus = TaskStatus.SUCCEEDED) -> None:
        for task in await self.tasks("QUEUED"):
            await self.settle(task, outcome)


def assert_disjoint(spans: list[Span]) -> None:
    assert all(left.end <= right.start for left, right in itertools.pairwise(spans)), "a window twice"


def assert_partition(spans: list[Span], start: datetime, end: datetime) -> None:
    assert_disjoint(spans)
    assert (spans[0].start, spans[-1].end) == (start, end)
    assert all(left.end == right.start for left, right in itertools.pairwise(spans)), "a gap"


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)
