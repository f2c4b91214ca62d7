"""A harvest: from the watermark to what is safe, each window once, failed ones again."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from tests.integration.harvest.planning.conftest import assert_disjoint, assert_partition
from tests.support.planning import DAY, NOW, Counts, compiled, planner

from penstock.harvest.planning import HistoryEstimator, Trigger
from penstock.harvest.planning.windows import minus
from penstock.harvest.slices import Span
from penstock.harvest.spec import Operation
from penstock.harvest.states import PlanStatus, TaskStatus
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

MAY = datetime(2024, 5, 1, tzinfo=UTC)
SAFE = NOW - timedelta(hours=1)
TRIGGER = Trigger("crossref")


class TestFirstPlan:
    async def test_every_window_has_a_slice_and_a_task_in_order(self, database, desk):
        outcome = await planner(database, compiled()).plan(TRIGGER)
        assert (outcome.status, outcome.slices, outcome.tasks) == (PlanStatus.READY, 32, 32)
        assert_partition([Span(t["window_from"], t["window_to"]) for t in await desk.tasks()], MAY, SAFE)
        assert await desk.one("select count(*) from ing_plan_slice where status_code = 'READY'") == 32
        assert await desk.one("select count(distinct slice_no) from ing_plan_slice") == 32

    async def test_the_plan_keeps_its_snapshot_its_cursor_and_what_was_estimated(self, database, desk):
        made = compiled(rateLimit={"qps": 5})
        outcome = await planner(database, made, Counts(lambda _: 250)).plan(TRIGGER)
        [plan] = await desk.rows("select * from ing_plan")
        assert plan["expr_proto_snapshot"] == made.snapshot
        assert (plan["cursor_key"], plan["namespace_scope_code"], plan["namespace_key"]) == (
            "updated_at",
            "EXPR",
            "works",
        )
        assert plan["direction_code"] == "FORWARD"
        assert outcome.remarks["totalEstimated"] == 32 * 250
        assert outcome.remarks["budget"] == {"maxRequests": 32 * 3, "qps": 5.0}
        assert outcome.remarks["window"] == {"from": MAY.isoformat(), "to": SAFE.isoformat(), "safetyLag": "PT10M"}
        assert await desk.one("select origin_instant from ing_cursor") == MAY

    async def test_the_history_and_the_events_tell_of_it(self, database, desk):
        await planner(database, compiled()).plan(TRIGGER)
        moves = await desk.rows("select to_status from state_transitions where entity_type = 'plan' order by id")
        assert [row["to_status"] for row in moves] == ["DRAFT", "SLICING", "READY"]
        assert await desk.one("select count(*) from state_transitions where to_status = 'QUEUED'") == 32
        kinds = {row["event_type"] for row in await desk.rows("select event_type from outbox_events")}
        assert kinds == {"plan.draft", "plan.slicing", "plan.ready", "slices.ready", "tasks.queued"}

    async def test_the_partition_says_how_many_tasks_may_run(self, database, desk):
        made = compiled(planning={"cMax": 3}, rateLimit={"concurrency": 2})
        await planner(database, made).plan(TRIGGER)
        [row] = await desk.rows("select c_max, source_max from ing_partition")
        assert row == {"c_max": 3, "source_max": 2}

    async def test_windows_with_too_much_in_them_are_halved(self, database, desk):
        counts = Counts(lambda span: (span.end - span.start) // timedelta(hours=1) * 100)
        outcome = await planner(database, compiled(planning={"sliceItems": 1200}), counts).plan(TRIGGER)
        assert outcome.slices == 63
        assert_partition(await desk.windows(), MAY, SAFE)

    async def test_a_window_that_cannot_be_cut_further_is_kept_with_a_warning(self, database):
        made = compiled(window={"minWindow": "1d", "initial": "2d", "earliest": None}, pagination={"ceiling": 10})
        outcome = await planner(database, made, Counts(lambda _: 99)).plan(TRIGGER)
        assert "more than the source can be paged through" in outcome.remarks["warnings"][0]

    async def test_what_we_do_without_is_named(self, database):
        outcome = await planner(database, compiled()).plan(TRIGGER)
        assert "noEstimate" in outcome.remarks["degradation"]

    async def test_a_source_that_cannot_filter_is_not_cut(self, database, desk):
        made = compiled(window={"supportsUpdatedSince": False, "clientFilter": True})
        assert (await planner(database, made).plan(TRIGGER)).slices == 1
        assert await desk.windows() == [Span(MAY, SAFE)]


class TestNextPlan:
    async def test_while_all_is_queued_there_is_nothing_to_do(self, database, desk):
        await planner(database, compiled()).plan(TRIGGER)
        outcome = await planner(database, compiled()).plan(TRIGGER)
        assert (outcome.plan_id, outcome.slices) == (None, 0)
        assert "queue" in outcome.sentence.en
        assert len(await desk.rows("select 1 from ing_schedule_instance")) == 2

    async def test_when_all_is_stored_only_the_new_is_planned(self, database, desk):
        await planner(database, compiled()).plan(TRIGGER)
        await desk.settle_all()
        await planner(database, compiled(), now=NOW + DAY).plan(TRIGGER)
        assert_partition(await desk.windows(), MAY, SAFE + DAY)

    async def test_a_failed_window_is_taken_up_again_and_only_that(self, database, desk):
        await planner(database, compiled()).plan(TRIGGER)
        failed, *others = await desk.tasks()
        await desk.settle(failed, TaskStatus.FAILED)
        for task in others:
            await desk.settle(task, TaskStatus.SUCCEEDED)
        outcome = await planner(database, compiled()).plan(TRIGGER)
        assert outcome.slices == 1
        [again] = await desk.tasks("QUEUED")
        assert (again["window_from"], again["window_to"]) == (failed["window_from"], failed["window_to"])

    async def test_the_overlap_is_read_again_once_per_harvest(self, database, desk):
        made = compiled(window={"overlap": "3h"})
        await planner(database, made).plan(TRIGGER)
        await desk.settle_all()
        assert (await planner(database, made).plan(TRIGGER)).plan_id is None
        await planner(database, made, now=NOW + timedelta(hours=1)).plan(TRIGGER)
        [task] = await desk.tasks("QUEUED")
        assert task["window_from"] == SAFE - timedelta(hours=3)
        assert task["window_to"] == SAFE + timedelta(hours=1)

    async def test_a_source_whose_clock_is_behind_is_given_time(self, database, desk):
        await planner(database, compiled()).plan(TRIGGER)
        await desk.settle_all()
        await desk.run("update ing_partition set clock_behind = interval '2 hours'")
        outcome = await planner(database, compiled(), now=NOW + timedelta(hours=1)).plan(TRIGGER)
        assert outcome.plan_id is None


class TestCoarserSteps:
    """The source could be asked for hours, and now only for days: of half a day it would tell nothing."""

    HOURS: ClassVar[dict[str, str]] = {"granularity": "1h", "align": "hour", "minWindow": "1h", "maxWindow": "7h"}
    DAYS: ClassVar[dict[str, str]] = {"granularity": "1d", "align": "day", "minWindow": "1d", "maxWindow": "2d"}
    OFF_DAY: ClassVar[dict[str, str]] = {"earliest": "2024-05-01T05:00:00Z"}

    async def test_what_is_left_over_is_asked_for_in_whole_steps(self, database, desk):
        await planner(database, compiled(window=self.HOURS)).plan(TRIGGER)
        failed = []
        for n, task in enumerate(await desk.tasks()):
            outcome = TaskStatus.FAILED if n % 5 == 2 else TaskStatus.SUCCEEDED
            failed += [Span(task["window_from"], task["window_to"])] if outcome is TaskStatus.FAILED else []
            await desk.settle(task, outcome)
        outcome = await planner(database, compiled(window=self.DAYS), now=NOW + DAY).plan(TRIGGER)
        assert outcome.status is PlanStatus.READY
        asked = sorted(Span(task["window_from"], task["window_to"]) for task in await desk.tasks("QUEUED"))
        assert_disjoint(asked)
        assert all((edge - MAY) % DAY == timedelta(0) for span in asked for edge in (span.start, span.end))
        assert not minus(failed, asked)
        await desk.settle_all()
        assert await desk.one("select normalized_instant from ing_cursor") >= SAFE
        assert (await planner(database, compiled(window=self.DAYS), now=NOW + DAY).plan(TRIGGER)).plan_id is None

    async def test_a_harvest_that_began_between_two_steps_begins_at_the_one_before(self, database, desk):
        await planner(database, compiled(window=self.HOURS | self.OFF_DAY)).plan(TRIGGER)
        await desk.settle_all(TaskStatus.FAILED)
        await planner(database, compiled(window=self.DAYS | self.OFF_DAY)).plan(TRIGGER)
        assert min(task["window_from"] for task in await desk.tasks("QUEUED")) == MAY

    async def test_a_backfill_up_to_where_the_harvest_began_leaves_no_part_of_a_step(self, database, desk):
        await planner(database, compiled(window=self.HOURS | self.OFF_DAY)).plan(TRIGGER)
        made = compiled(window=self.DAYS | self.OFF_DAY, operation=Operation.BACKFILL)
        await planner(database, made).plan(Trigger("crossref", operation=Operation.BACKFILL, since=MAY - 3 * DAY))
        until = await desk.one("select max(window_to) from ing_task where operation_code = 'BACKFILL'")
        assert until == MAY + DAY


class TestRefusals:
    async def test_a_specification_that_does_not_fit_leaves_a_note_and_no_plan(self, database, desk):
        async def load(trigger):
            raise PenstockError(error_codes.SPEC_INVALID, problems=[{"rule": "pagination", "key": "nextTokenPath"}])

        broken = planner(database, compiled())
        object.__setattr__(broken, "load_and_compile", load)
        with pytest.raises(PenstockError, match="SPEC_INVALID"):
            await broken.plan(TRIGGER)
        noted = await desk.one("select record_remarks from ing_schedule_instance")
        assert noted["details"]["problems"] == [{"rule": "pagination", "key": "nextTokenPath"}]
        assert await desk.one("select count(*) from ing_plan") == 0
        assert await desk.one("select event_type from outbox_events") == "trigger.refused"

    async def test_a_window_that_makes_no_sense_is_noted_too(self, database, desk):
        await planner(database, compiled()).plan(TRIGGER)
        with pytest.raises(PenstockError, match="HARVEST_WINDOW_INVALID"):
            await planner(database, compiled()).plan(Trigger("crossref", since=MAY - DAY))
        noted = await desk.one("select record_remarks from ing_schedule_instance order by id desc limit 1")
        assert noted["code"] == "HARVEST_WINDOW_INVALID"

    async def test_an_estimator_that_breaks_fails_the_plan_and_its_windows_are_free(self, database, desk):
        class Broken:
            async def count(self, compiled, span):
                raise PenstockError(error_codes.CREDENTIAL_MISSING)

        with pytest.raises(PenstockError, match="CREDENTIAL_MISSING"):
            await planner(database, compiled(), Broken()).plan(TRIGGER)
        assert await desk.one("select status_code from ing_plan") == "FAILED"
        assert (await planner(database, compiled()).plan(TRIGGER)).slices == 32


class TestKeys:
    async def test_the_same_trigger_twice_is_one_plan(self, database, desk):
        keyed = Trigger("crossref", idempotent_key="once")
        first = await planner(database, compiled()).plan(keyed)
        await desk.settle_all(TaskStatus.FAILED)
        second = await planner(database, compiled(), now=NOW + DAY).plan(keyed)
        assert second.plan_id == first.plan_id
        assert len(await desk.tasks()) == 32

    async def test_a_trigger_that_found_nothing_to_do_says_so_again(self, database):
        await planner(database, compiled()).plan(TRIGGER)
        keyed = Trigger("crossref", idempotent_key="again")
        first = await planner(database, compiled()).plan(keyed)
        assert (await planner(database, compiled()).plan(keyed)).sentence == first.sentence


class TestTheQueue:
    MADE = compiled(planning={"queueLimit": 10})

    async def test_when_it_is_full_the_plan_is_partial_and_goes_on_when_there_is_room(self, database, desk):
        here = planner(database, self.MADE)
        outcome = await here.plan(TRIGGER)
        assert (outcome.status, outcome.slices) == (PlanStatus.PARTIAL, 10)
        assert (await here.go_on(outcome.plan_id)).slices == 10
        sizes = []
        while (await desk.rows("select status_code from ing_plan"))[0]["status_code"] == "PARTIAL":
            await desk.settle_all()
            sizes.append((await here.go_on(outcome.plan_id)).slices)
        assert sizes == [20, 30, 32]
        assert_partition(await desk.windows(), MAY, SAFE)

    async def test_no_further_plan_is_made_while_one_waits_for_room(self, database, desk):
        first = await planner(database, self.MADE).plan(TRIGGER)
        outcome = await planner(database, self.MADE).plan(TRIGGER)
        assert outcome.plan_id is None
        assert str(first.plan_id) in outcome.sentence.en

    async def test_a_later_plan_and_the_waiting_one_do_not_take_the_same_windows(self, database, desk):
        here = planner(database, self.MADE)
        first = await here.plan(TRIGGER)
        for task in (await desk.tasks())[:5]:
            await desk.settle(task, TaskStatus.SUCCEEDED)
        second = await here.plan(TRIGGER)
        assert second.plan_id != first.plan_id
        for _ in range(8):
            await desk.settle_all()
            await asyncio.gather(here.go_on(first.plan_id), here.go_on(second.plan_id))
        assert_partition(await desk.windows(), MAY, SAFE)
        states = await desk.rows("select distinct status_code from ing_plan")
        assert states == [{"status_code": "READY"}]


class TestTheQuota:
    MADE = compiled(rateLimit={"quotaDaily": 100, "quotaMargin": 0.1}, pagination={"pageSize": 10})

    async def test_no_more_is_queued_than_it_allows(self, database, desk):
        here = planner(database, self.MADE, Counts(lambda _: 200))
        outcome = await here.plan(TRIGGER)
        assert (outcome.status, outcome.slices) == (PlanStatus.PARTIAL, 4)  # 90 requests, 20 for each
        assert (await here.go_on(outcome.plan_id)).slices == 4
        assert await desk.one("select count(*) from state_transitions where to_status = 'SLICING'") == 1
        await desk.settle_all()
        assert (await here.go_on(outcome.plan_id)).slices == 8

    async def test_a_slice_larger_than_the_quota_gets_its_turn_alone(self, database):
        here = planner(database, self.MADE, Counts(lambda _: 5000))
        assert (await here.plan(TRIGGER)).slices == 1


class TestTwoAtOnce:
    async def test_no_window_is_queued_twice(self, database, desk):
        made = compiled(window={"maxWindow": "1h"})
        outcomes = await asyncio.gather(*(planner(database, made).plan(TRIGGER) for _ in range(6)))
        assert sum(outcome.slices for outcome in outcomes) == 755
        assert_partition(await desk.windows(), MAY, SAFE)

    async def test_nor_when_executors_finish_meanwhile(self, database, desk):
        made = compiled(window={"overlap": "6h"})
        await planner(database, made).plan(TRIGGER)
        await desk.settle_all()
        before = len(await desk.tasks())

        async def execute() -> None:
            for _ in range(20):
                await desk.settle_all()
                await asyncio.sleep(0)

        later = NOW + DAY
        await asyncio.gather(*(planner(database, made, now=later).plan(TRIGGER) for _ in range(4)), execute())
        spans = sorted(Span(t["window_from"], t["window_to"]) for t in (await desk.tasks())[before:])
        assert_disjoint(spans)
        assert spans[-1].end == SAFE + DAY

    async def test_one_trigger_handed_to_two_planners_is_one_plan(self, database, desk):
        keyed = Trigger("crossref", idempotent_key="both")
        first, second = await asyncio.gather(*(planner(database, compiled()).plan(keyed) for _ in range(2)))
        assert first.plan_id == second.plan_id
        assert_partition(await desk.windows(), MAY, SAFE)


class TestSourcesWithoutWindows:
    WINDOW: ClassVar = {"supportsUpdatedSince": False, "earliest": None}

    async def test_pages_are_sliced_by_the_estimate(self, database, desk):
        made = compiled(window=self.WINDOW, pagination={"type": "PAGE", "pageSize": 10}, planning={"pagesPerSlice": 20})
        outcome = await planner(database, made, Counts(lambda _: 950)).plan(TRIGGER)
        bounds = [row["b"] for row in await desk.rows("select slice_spec #> '{bounds,page}' as b from ing_plan_slice"
                                                      " order by slice_no")]  # fmt: skip
        assert [(each["fromPage"], each["toPage"]) for each in bounds] == [(n, n + 20) for n in range(0, 100, 20)]
        assert "noWindows" in outcome.remarks["degradation"]
        assert (await planner(database, made, Counts(lambda _: 950)).plan(TRIGGER)).plan_id is None

    async def test_a_scan_goes_on_from_its_token(self, database, desk):
        made = compiled(window={**self.WINDOW, "cursorType": "TOKEN"}, pagination={"type": "TOKEN"})
        first = await planner(database, made).plan(TRIGGER)
        await desk.settle_all()
        await desk.run("update ing_cursor set cursor_value = 'abc'")
        await planner(database, made).plan(TRIGGER)
        bounds = await desk.rows("select slice_spec #> '{bounds,scan}' as scan from ing_plan_slice order by id")
        assert (first.slices, bounds) == (1, [{"scan": {}}, {"scan": {"after": "abc"}}])

    async def test_two_at_once_make_one_scan(self, database, desk):
        made = compiled(window={**self.WINDOW, "cursorType": "TOKEN"}, pagination={"type": "TOKEN"})
        await asyncio.gather(*(planner(database, made).plan(TRIGGER) for _ in range(4)))
        assert len(await desk.tasks()) == 1


class TestPreview:
    async def test_it_shows_the_slices_and_writes_nothing(self, database, desk):
        shown = await planner(database, compiled(), Counts(lambda _: 250)).preview(TRIGGER)
        assert shown.window == Span(MAY, SAFE)
        assert [each.requests for each in shown.slices] == [3] * 32
        assert shown.remarks["totalEstimated"] == 8000
        for table in ("ing_schedule_instance", "ing_plan", "ing_cursor", "outbox_events"):
            assert await desk.rows(f"select 1 from {table}") == []

    async def test_it_says_when_there_is_nothing_to_do(self, database):
        await planner(database, compiled()).plan(TRIGGER)
        assert "queue" in (await planner(database, compiled()).preview(TRIGGER)).sentence.en


class TestExperience:
    async def test_the_rate_of_earlier_runs_is_the_estimate(self, database, desk):
        history = HistoryEstimator(database)
        assert await history.count(compiled(), Span(MAY, MAY + DAY)) is None
        await desk.run(
            "insert into ing_task_run (task_id, provenance_code, endpoint_name, operation_code, attempt_no,"
            " status_code, executor, stats, window_from, window_to) values"
            " (1, 'crossref', 'works', 'HARVEST', 1, 'SUCCEEDED', 'x',"
            " '{\"retCount\": 480}', %s, %s)", MAY, MAY + 2 * DAY,
        )  # fmt: skip
        await desk.run(
            "insert into ing_task_run_batch (run_id, task_id, slice_id, plan_id, expr_hash, provenance_code,"
            " endpoint_name, operation_code, batch_no, status_code, idempotent_key)"
            " select id, 1, 1, 1, 'h', 'crossref', 'works', 'HARVEST', 1, 'SUCCEEDED', 'k' from ing_task_run"
        )
        assert await history.count(compiled(), Span(MAY, MAY + DAY)) == 240
