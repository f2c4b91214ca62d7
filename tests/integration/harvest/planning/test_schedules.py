"""Schedules come due once, whoever looks at them."""

import asyncio
from datetime import timedelta

import pytest
from tests.support.planning import NOW, compiled, planner

from penstock.harvest.planning import Schedules, Trigger
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

HOUR = timedelta(hours=1)


class Held:
    """A fence that nobody takes away."""

    async def hold(self, tx) -> None:
        await tx.execute("select 1")


class Lost:
    async def hold(self, tx) -> None:
        raise PenstockError(error_codes.LEASE_LOST)


async def add(
    desk, *, cron: str | None = None, every: timedelta | None = None, due=NOW, operation: str = "HARVEST"
) -> None:
    await desk.run(
        "insert into reg_schedule (provenance_code, endpoint_name, operation_code, cron, every, next_run_at)"
        " values ('crossref', 'works', %s, %s, %s, %s)",
        operation, cron, every, due,
    )  # fmt: skip


class TestDueTimes:
    async def test_a_due_schedule_makes_a_plan_and_gets_its_next_time(self, database, desk):
        await add(desk, cron="0 3 * * *")
        await Schedules(planner(database, compiled())).trigger_due(Held())
        [row] = await desk.rows("select * from reg_schedule")
        assert row["next_run_at"] == NOW.replace(day=2, hour=3)
        assert (row["last_run_at"], row["last_error"]) == (NOW, None)
        [instance] = await desk.rows("select * from ing_schedule_instance")
        assert (instance["scheduler_code"], instance["trigger_type_code"]) == ("SCHEDULE", "SCHEDULED")
        assert len(await desk.tasks()) == 32

    async def test_what_is_not_due_waits(self, database, desk):
        await add(desk, every=HOUR, due=NOW + timedelta(seconds=1))
        await Schedules(planner(database, compiled())).trigger_due(Held())
        assert await desk.rows("select 1 from ing_schedule_instance") == []

    async def test_missed_times_are_one(self, database, desk):
        await add(desk, every=HOUR, due=NOW - 10 * HOUR - HOUR / 2)
        duty = Schedules(planner(database, compiled()))
        await duty.trigger_due(Held())
        await duty.trigger_due(Held())
        assert await desk.one("select count(*) from ing_schedule_instance") == 1
        assert await desk.one("select next_run_at from reg_schedule") == NOW + HOUR / 2

    async def test_two_schedulers_at_once_make_one_plan(self, database, desk):
        await add(desk, every=HOUR)
        await asyncio.gather(*(Schedules(planner(database, compiled())).trigger_due(Held()) for _ in range(3)))
        assert await desk.one("select count(*) from ing_schedule_instance") == 1
        assert await desk.one("select count(*) from ing_plan") == 1

    async def test_a_scheduler_that_lost_its_turn_leaves_the_time_to_the_other_and_nothing_is_planned_twice(
        self, database, desk
    ):
        await add(desk, every=HOUR)
        with pytest.raises(PenstockError, match="LEASE_LOST"):
            await Schedules(planner(database, compiled())).trigger_due(Lost())
        await Schedules(planner(database, compiled())).trigger_due(Held())
        assert await desk.one("select count(*) from ing_plan") == 1
        assert len(await desk.tasks()) == 32

    async def test_a_schedule_that_fails_says_why_and_does_not_hold_up_the_others(self, database, desk):
        await add(desk, every=HOUR, due=NOW - HOUR, operation="UPDATE")
        await add(desk, every=HOUR)
        made = compiled(http={"queryTemplate": {}})
        await Schedules(planner(database, made)).trigger_due(Held())
        errors = await desk.rows("select operation_code, last_error from reg_schedule order by 1")
        assert errors[0] == {"operation_code": "HARVEST", "last_error": None}
        assert "HARVEST_UPDATE_IMPOSSIBLE" in errors[1]["last_error"]
        assert len(await desk.tasks()) == 32

    async def test_nor_does_one_at_which_we_stumble(self, database, desk):
        await add(desk, every=HOUR, due=NOW - HOUR, operation="NONSENSE")
        await add(desk, every=HOUR)
        await Schedules(planner(database, compiled())).trigger_due(Held())
        assert len(await desk.tasks()) == 32
        assert "NONSENSE" in await desk.one("select last_error from reg_schedule where operation_code = 'NONSENSE'")

    async def test_a_cron_line_that_cannot_be_read_waits_for_a_day(self, database, desk):
        await add(desk, cron="never")
        await Schedules(planner(database, compiled())).trigger_due(Held())
        assert await desk.one("select next_run_at from reg_schedule") == NOW + timedelta(days=1)


class TestGoingOn:
    async def test_plans_that_wait_are_gone_on_with_when_there_is_room(self, database, desk):
        duty = Schedules(planner(database, compiled(planning={"queueLimit": 20})))
        await add(desk, every=HOUR)
        await duty.trigger_due(Held())
        await duty.go_on(Held())
        assert len(await desk.tasks()) == 20
        await desk.settle_all()
        await duty.go_on(Held())
        assert len(await desk.tasks()) == 32
        assert await desk.one("select status_code from ing_plan") == "READY"

    async def test_a_plan_that_cannot_be_read_does_not_hold_up_the_others(self, database, desk):
        made = planner(database, compiled(planning={"queueLimit": 4}))
        await made.plan(Trigger("crossref"))
        await desk.run("insert into ing_plan (schedule_instance_id, provenance_code, endpoint_name, operation_code,"
                       " plan_strategy_code, expr_proto_hash, expr_proto_snapshot, spec_fingerprint, status_code,"
                       " cursor_key, cursor_type_code, namespace_scope_code, namespace_key, direction_code, priority,"
                       " updated_at) values (99, 'old', 'works', 'HARVEST', 'TIME', 'x', '{\"of\": 1}', 'x', 'DRAFT',"
                       " 'k', 'TIME', 'EXPR', 'works', 'FORWARD', 1, '2020-01-01')")  # fmt: skip
        await desk.settle_all()
        await Schedules(made).go_on(Held())
        assert len(await desk.tasks()) == 8

    def test_there_are_two_duties(self):
        names = [duty.name for duty in Schedules(planner(None, compiled())).duties()]
        assert names == ["harvest.schedules", "harvest.plans"]
