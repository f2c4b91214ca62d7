"""A refresh: stale records, records stored by other rules, and records that somebody points at."""

import asyncio
import json

import pytest
from tests.support.planning import compiled, planner

from penstock.harvest.planning import CandidateKind, Candidates, Reason, Trigger, raise_signals
from penstock.harvest.spec import Operation
from penstock.harvest.states import PlanStatus, TaskStatus
from penstock.kernel.errors import PenstockError

MADE = compiled(Operation.UPDATE, planning={"idsPerSlice": 10, "staleAfter": "30d"})


def trigger(kind: CandidateKind = CandidateKind.STALE, limit: int | None = None) -> Trigger:
    return Trigger("crossref", operation=Operation.UPDATE, candidates=Candidates(kind, limit))


async def store_records(desk, count: int, *, age: int = 0, expr_hash: str = MADE.expr_proto_hash, prefix: str = "r"):
    """Record n was looked at `age` days and n minutes ago."""
    await desk.run(
        "insert into ing_record (provenance_code, endpoint_name, provider_id, updated_at, body, expr_hash,"
        " batch_run_id, batch_no, checked_at) select 'crossref', 'works',"
        " %s || lpad(n::text, 4, '0'), now(), '{}', %s, 1, 1,"
        " now() - make_interval(days => %s, mins => n) from generate_series(1, %s) n",
        prefix, expr_hash, age, count,
    )  # fmt: skip


async def quarantine(desk, provider_id: str | None, item_no: int) -> None:
    await desk.run(
        "insert into ing_quarantine (provenance_code, endpoint_name, operation_code, provider_id, reason_code, reason,"
        " sample, run_id, batch_no, item_no) values"
        " ('crossref', 'works', 'HARVEST', %s, 'FIELD_MISSING', '', '', 1, 1, %s)",
        provider_id, item_no,
    )  # fmt: skip


async def point_at(database, *ids: str, code: str = "RETRACTION") -> int:
    async with database.transaction() as tx:
        return await raise_signals(tx, "crossref", "works", ids, Reason(code, "somebody"))


async def chosen(desk) -> list[str]:
    """Ids of all slices, in their order."""
    rows = await desk.rows("select expr_snapshot -> 'ids' as ids from ing_plan_slice order by plan_id, slice_no")
    return [each for row in rows for each in row["ids"]]


class TestStale:
    async def test_records_not_looked_at_for_long_are_fetched_oldest_first(self, database, desk):
        await store_records(desk, 25, age=40)
        await store_records(desk, 5, age=10, prefix="fresh")
        outcome = await planner(database, MADE).plan(trigger())
        assert (outcome.status, outcome.slices) == (PlanStatus.READY, 3)
        assert await chosen(desk) == [f"r{number:04}" for number in range(25, 0, -1)]
        [plan] = await desk.rows("select * from ing_plan")
        assert (plan["cursor_key"], plan["cursor_type_code"]) == ("refresh_checked_at", "TIME")
        assert (plan["namespace_scope_code"], plan["plan_strategy_code"]) == ("CUSTOM", "ID")

    async def test_a_slice_says_how_far_it_goes_and_what_it_costs(self, database, desk):
        await store_records(desk, 25, age=40)
        await planner(database, MADE).plan(trigger())
        last = (await desk.rows("select slice_spec from ing_plan_slice order by slice_no"))[-1]["slice_spec"]
        bounds = last["bounds"]["id"]
        assert (bounds["start"], bounds["end"], bounds["from"], bounds["to"]) == (20, 25, "r0005", "r0001")
        assert "checkedTo" in bounds
        assert (last["twoPhase"], last["idBatchSize"], last["budget"]["maxRequests"]) == (True, 200, 1)

    async def test_what_is_being_fetched_is_not_chosen_again(self, database, desk):
        await store_records(desk, 25, age=40)
        await planner(database, MADE).plan(trigger(limit=10))
        await planner(database, MADE).plan(trigger())
        ids = await chosen(desk)
        assert len(ids) == len(set(ids)) == 25
        assert (await planner(database, MADE).plan(trigger())).plan_id is None

    async def test_two_at_once_share_the_records(self, database, desk):
        await store_records(desk, 95, age=40)
        await asyncio.gather(*(planner(database, MADE).plan(trigger()) for _ in range(4)))
        ids = await chosen(desk)
        assert len(ids) == len(set(ids)) == 95

    async def test_a_failed_record_is_chosen_by_the_next_refresh_not_by_the_same(self, database, desk):
        made = compiled(Operation.UPDATE, planning={"idsPerSlice": 10, "queueLimit": 1})
        await store_records(desk, 15, age=40)
        here = planner(database, made)
        first = await here.plan(trigger())
        assert (first.status, first.slices) == (PlanStatus.PARTIAL, 1)
        await desk.settle_all(TaskStatus.FAILED)
        assert (await here.go_on(first.plan_id)).status is PlanStatus.READY
        ids = await chosen(desk)
        assert len(ids) == len(set(ids)) == 15
        await desk.settle_all(TaskStatus.FAILED)
        assert (await here.plan(trigger())).slices == 1

    async def test_hash_buckets(self, database, desk):
        made = compiled(Operation.UPDATE, planning={"idsPerSlice": 100, "idBuckets": 4})
        await store_records(desk, 60, age=40)
        await planner(database, made).plan(trigger())
        rows = await desk.rows("select slice_spec #> '{bounds,id}' as bounds from ing_plan_slice order by slice_no")
        assert [row["bounds"]["hashBucket"] for row in rows] == [0, 1, 2, 3]
        assert len(set(await chosen(desk))) == 60


class TestOtherRules:
    async def test_records_stored_by_an_older_expression_are_fetched(self, database, desk):
        await store_records(desk, 5, expr_hash="sha256:old", prefix="old")
        await store_records(desk, 5)
        outcome = await planner(database, MADE).plan(trigger(CandidateKind.EXPRESSION))
        assert outcome.slices == 1
        assert await chosen(desk) == [f"old{number:04}" for number in range(1, 6)]


class TestSignals:
    async def test_signals_and_quarantine_are_taken_up_once(self, database, desk):
        await point_at(database, "b", "a")
        await quarantine(desk, "c", 1)
        await quarantine(desk, "c", 2)
        await quarantine(desk, None, 3)
        outcome = await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))
        assert await chosen(desk) == ["a", "b", "c"]
        taken = await desk.rows("select provider_id, reason_code, plan_id from ing_signal order by 1")
        assert [(row["provider_id"], row["plan_id"]) for row in taken] == [(name, outcome.plan_id) for name in "abc"]
        await desk.settle_all()
        assert (await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))).plan_id is None

    async def test_raised_again_they_are_open_again(self, database, desk):
        assert await point_at(database, "a", "b") == 2
        assert await point_at(database, "a", "b") == 0
        await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))
        await desk.settle_all()
        assert await point_at(database, "a", "a") == 1
        assert (await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))).tasks == 1

    async def test_what_comes_into_quarantine_anew_is_fetched_anew(self, database, desk):
        await quarantine(desk, "c", 1)
        await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))
        await desk.settle_all()
        await quarantine(desk, "c", 2)
        await desk.run("update ing_quarantine set created_at = now() + interval '1 s' where item_no = 2")
        assert (await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))).tasks == 1

    async def test_a_signal_for_a_record_that_is_being_fetched_waits(self, database, desk):
        await point_at(database, "a")
        await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))
        await point_at(database, "a", code="CORRECTION")
        assert (await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))).plan_id is None
        await desk.settle_all()
        assert (await planner(database, MADE).plan(trigger(CandidateKind.SIGNALS))).tasks == 1

    @pytest.mark.parametrize(
        "ids",
        [[], [" "], ["a\x00"], ["a\ud800"], ["x" * 1001], ["a"] * 10_001],
        ids=["none", "blank", "zero", "half a letter", "long", "many"],
    )
    async def test_lists_that_make_no_sense_are_refused(self, database, ids):
        with pytest.raises(PenstockError, match="SIGNALS_INVALID"):
            await point_at(database, *ids)


class TestImpossible:
    async def test_an_endpoint_that_cannot_be_asked_by_id_is_refused(self, database, desk):
        made = compiled(Operation.UPDATE, http={"queryTemplate": {"q": "${param.q}"}})
        with pytest.raises(PenstockError, match="HARVEST_UPDATE_IMPOSSIBLE"):
            await planner(database, made).plan(trigger())
        assert (await desk.one("select record_remarks from ing_schedule_instance"))[
            "code"
        ] == "HARVEST_UPDATE_IMPOSSIBLE"

    async def test_a_detail_endpoint_is_a_way(self, database, desk):
        detail = {"http": {"queryTemplate": {"id": "${join(ids, ',')}"}}}
        made = compiled(Operation.UPDATE, http={"queryTemplate": {}}, detail=detail)
        await store_records(desk, 3, age=60)
        assert (await planner(database, made).plan(trigger())).slices == 1

    async def test_without_candidates_there_is_no_plan(self, database):
        outcome = await planner(database, MADE).plan(trigger())
        assert (outcome.plan_id, outcome.sentence.en) == (None, "Nothing to do: no record needs to be looked at again.")

    async def test_a_preview_shows_the_slices(self, database, desk):
        await store_records(desk, 25, age=40)
        shown = await planner(database, MADE).preview(trigger())
        assert [each.spec.total_estimated for each in shown.slices] == [10, 10, 5]
        assert json.dumps(shown.remarks["budget"]) == '{"maxRequests": 3, "qps": 1.0}'
        assert await desk.tasks() == []


class TestProgress:
    async def test_the_cursor_follows_the_candidates_in_their_order(self, database, desk):
        from penstock.harvest import cursors
        from penstock.harvest.cursors import Closing, Lineage
        from penstock.harvest.slices import IdBounds

        await store_records(desk, 25, age=40)
        outcome = await planner(database, MADE).plan(trigger())
        name = await desk.name(outcome.plan_id)
        rows = await desk.rows("select id, slice_spec #> '{bounds,id}' as bounds from ing_plan_slice order by slice_no")
        async with database.transaction() as tx:
            for number in (1, 0):
                bounds = IdBounds.model_validate(rows[number]["bounds"])
                closing = Closing(Lineage(plan_id=outcome.plan_id, task_id=number))
                reached = await cursors.close_positions(tx, name, bounds, closing)
        assert reached == 20
        assert await desk.one("select normalized_instant from ing_cursor") == await desk.one(
            "select checked_at from ing_record where provider_id = 'r0006'"
        )
