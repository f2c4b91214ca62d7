"""Planners that are killed between any two steps: what they left is gone on with, and no window is queued twice."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.harvest.planning.conftest import assert_disjoint, assert_partition
from tests.support import nursery, programs
from tests.support.nursery import Child
from tests.support.planning import NOW, compiled, planner

from penstock.harvest.planning import Trigger
from penstock.harvest.planning.store import plans_to_go_on_with

MAY = datetime(2024, 5, 1, tzinfo=UTC)
SAFE = NOW - timedelta(hours=1)
SECTIONS = {"window": {"maxWindow": "1h"}}  # 755 windows: two chunks
POINTS = {
    "plan.triggered=kill": 0,
    "plan.drafting=kill": 0,
    "plan.drafted=kill": 0,
    "plan.slicing=kill": 0,
    "plan.writing=kill@2": 500,
    "plan.queued=kill": 500,
    "plan.filled=kill": 755,
}


def start(url: str, failpoint: str = "", key: str = "") -> Child:
    env = programs.environment(PENSTOCK_FAILPOINT=failpoint)
    deed = (url, "HARVEST", key, json.dumps(SECTIONS))
    return nursery.start("tests.support.planning", *deed, log=Path(os.devnull), env=env)


def killed(url: str, failpoint: str, key: str = "") -> None:
    assert start(url, failpoint, key).wait(60) == -signal.SIGKILL


async def go_on_with_all(database) -> int:
    async with database.transaction() as tx:
        left = await plans_to_go_on_with(tx, timedelta(0), 10)
    for plan_id in left:
        await planner(database, compiled(**SECTIONS)).go_on(plan_id)
    return len(left)


class TestKilled:
    @pytest.mark.parametrize("point", POINTS)
    async def test_the_plan_is_gone_on_with_and_the_next_one_takes_the_rest(self, point, database, database_url, desk):
        killed(database_url, point)
        assert len(await desk.tasks()) == POINTS[point]
        await go_on_with_all(database)
        assert_disjoint(await desk.windows())
        await planner(database, compiled(**SECTIONS)).plan(Trigger("crossref"))
        assert_partition(await desk.windows(), MAY, SAFE)
        assert await desk.rows("select 1 from ing_plan where status_code in ('DRAFT', 'SLICING')") == []
        assert await go_on_with_all(database) == 0

    async def test_the_next_plan_first_and_then_the_one_that_was_left(self, database, database_url, desk):
        killed(database_url, "plan.queued=kill")
        await planner(database, compiled(**SECTIONS)).plan(Trigger("crossref"))
        assert_partition(await desk.windows(), MAY, SAFE)
        assert await go_on_with_all(database) == 1
        assert_partition(await desk.windows(), MAY, SAFE)

    @pytest.mark.parametrize("point", ["plan.triggered=kill", "plan.drafted=kill", "plan.queued=kill"])
    async def test_the_same_trigger_again_ends_in_one_plan(self, point, database, database_url, desk):
        killed(database_url, point, "once")
        outcome = await planner(database, compiled(**SECTIONS)).plan(Trigger("crossref", idempotent_key="once"))
        assert (outcome.slices, outcome.tasks) == (755, 755)
        assert await desk.one("select count(*) from ing_plan") == 1
        assert_partition(await desk.windows(), MAY, SAFE)

    async def test_a_plan_that_somebody_works_on_is_left_alone(self, database, database_url, desk):
        killed(database_url, "plan.queued=kill")
        async with database.transaction() as tx:
            assert await plans_to_go_on_with(tx, timedelta(minutes=2), 10) == []


class TestProcessesAtOnce:
    async def test_no_window_is_queued_twice(self, database, database_url, desk):
        planners = [start(database_url) for _ in range(3)]
        assert [program.wait(60) for program in planners] == [0, 0, 0]
        assert_partition(await desk.windows(), MAY, SAFE)
