"""A backfill: towards the past, in a namespace of its own, and the same one asked for twice goes on."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.harvest.planning.conftest import assert_partition
from tests.support.planning import DAY, NOW, compiled, planner

from penstock.harvest.planning import Trigger
from penstock.harvest.slices import Span
from penstock.harvest.spec import Operation
from penstock.harvest.states import PlanStatus, TaskStatus
from penstock.kernel.errors import PenstockError

MAY = datetime(2024, 5, 1, tzinfo=UTC)
APRIL = datetime(2024, 4, 1, tzinfo=UTC)
MADE = compiled(Operation.BACKFILL)
BACK = Trigger("crossref", operation=Operation.BACKFILL, since=APRIL)


async def of_backfill(desk) -> list[Span]:
    tasks = [task for task in await desk.tasks() if task["operation_code"] == "BACKFILL"]
    return [Span(task["window_from"], task["window_to"]) for task in tasks]


class TestBackfill:
    async def test_it_goes_from_the_newest_to_the_oldest_below_the_harvest(self, database, desk):
        await planner(database, compiled()).plan(Trigger("crossref"))
        await planner(database, MADE).plan(BACK)
        spans = await of_backfill(desk)
        assert spans == sorted(spans, reverse=True)
        assert_partition(sorted(spans), APRIL, MAY)
        numbers = await desk.rows(
            "select slice_spec #>> '{bounds,time,from}' as start from ing_plan_slice s"
            " join ing_plan p on p.id = s.plan_id where p.operation_code = 'BACKFILL' order by slice_no"
        )
        assert [datetime.fromisoformat(row["start"]) for row in numbers] == [span.start for span in spans]

    async def test_it_leaves_the_watermark_alone_and_is_less_urgent(self, database, desk):
        await planner(database, compiled()).plan(Trigger("crossref"))
        await planner(database, MADE).plan(BACK)
        await desk.settle_all()
        rows = await desk.rows("select * from ing_cursor order by id")
        assert [(row["operation_code"], row["direction_code"], row["namespace_scope_code"]) for row in rows] == [
            ("HARVEST", "FORWARD", "EXPR"), ("BACKFILL", "BACKFILL", "CUSTOM"),
        ]  # fmt: skip
        assert [row["normalized_instant"] for row in rows] == [NOW - timedelta(hours=1), APRIL]
        priorities = {task["operation_code"]: task["priority"] for task in await desk.tasks()}
        assert priorities["HARVEST"] < priorities["BACKFILL"]

    async def test_asked_for_again_it_goes_on_where_it_was(self, database, desk):
        here = planner(database, compiled(Operation.BACKFILL, planning={"queueLimit": 10}))
        first = await here.plan(Trigger("crossref", operation=Operation.BACKFILL, since=APRIL, until=MAY))
        assert (first.status, first.slices) == (PlanStatus.PARTIAL, 10)
        failed, *others = await desk.tasks()
        await desk.settle(failed, TaskStatus.FAILED)
        for task in others:
            await desk.settle(task, TaskStatus.SUCCEEDED)
        again = await here.plan(Trigger("crossref", operation=Operation.BACKFILL, since=APRIL, until=MAY))
        assert again.slices == 10
        spans = await of_backfill(desk)
        assert (spans[0], spans[10]) == (Span(MAY - DAY, MAY), Span(MAY - DAY, MAY))  # the failed one first
        assert await desk.one("select count(*) from ing_cursor") == 1

    async def test_another_one_has_another_namespace_and_does_not_wait(self, database, desk):
        here = planner(database, MADE)
        await here.plan(BACK)
        outcome = await here.plan(Trigger("crossref", operation=Operation.BACKFILL, since=APRIL, until=MAY))
        assert outcome.slices == 30
        assert await desk.one("select count(distinct namespace_key) from ing_plan") == 2

    async def test_a_source_without_windows_has_no_past(self, database):
        made = compiled(Operation.BACKFILL, window={"supportsUpdatedSince": False})
        with pytest.raises(PenstockError, match="no windows of time"):
            await planner(database, made).plan(BACK)
