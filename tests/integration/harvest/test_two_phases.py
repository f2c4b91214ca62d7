"""Lists of ids and their details: ids without details, ids that spoil a batch, and those that are given up."""

from datetime import timedelta

import pytest
from tests.standins import Library
from tests.standins.wire import as_json
from tests.support.harvesting import CALM, DETAILS, past, written

from penstock.harvest.planning.trigger import Candidates
from penstock.harvest.schedule_params import CandidateKind
from penstock.harvest.spec import Operation


def two_phases(kind="offset", **window):
    return written(
        kind, http={"pathTemplate": f"/none/ids/{kind}"}, linkedEndpoint="details",
        response={"idPath": "$", "updatedAtPath": None, "deletedPath": None, "deletedValue": None},
        batching={"idBatchSize": 20, "twoPhase": {"enabled": True, "linkedEndpoint": "details"}},
        window=window or {"overlap": "3d"}, pagination={"orderBy": "updated"}, endpoints={"details": DETAILS},
    )  # fmt: skip


def scanned_ids(url):
    """By tokens alone: the source cannot filter by time."""
    made = two_phases("token", supportsUpdatedSince=False, cursorType="TOKEN", monotonic=True)(url)
    query = made["endpoints"]["works"]["http"]["queryTemplate"]
    del query["from"], query["to"]
    return made


def library(records: int = 90) -> Library:
    made = Library(records, days=0.9, seed=4, habits=CALM)
    made.now = made.end + timedelta(days=1)
    return made


def spoiled(api, bad: set[str], *, refused: bool) -> None:
    """Details of these are missing, or make the source refuse whatever was asked with them."""
    answer, held = api.answer, api.held

    def with_faults(request):
        ids = set(str(request.query.get("ids", "")).split(","))
        if refused and request.path.endswith("/details") and ids & bad:
            return as_json({"error": "one of the ids is not an id"}, 400)
        return answer(request)

    api.answer = with_faults
    if not refused:
        api.held = lambda one: None if one in bad else held(one)


class TestDetails:
    async def test_lists_and_details_together_give_what_is_there(self, beside):
        made = library()
        async with beside("generic", made, document=two_phases()) as here:
            await here.harvest(since=made.start)
            assert await here.stored() == here.served()
            (row,) = await here.rows("select distinct endpoint_name from ing_record")
            assert row["endpoint_name"] == "works"

    async def test_ids_without_details_are_quarantined_and_the_others_stored(self, beside):
        made = library()
        async with beside("generic", made, document=two_phases()) as here:
            bad = set(sorted(here.served())[:3])
            spoiled(here.api, bad, refused=False)
            await here.harvest(since=made.start)
            assert set(await here.stored()) == set(here.served()) - bad
            rows = await here.rows("select provider_id, reason_code, endpoint_name from ing_quarantine order by 1")
            assert [(row["provider_id"], row["reason_code"]) for row in rows] == [
                (one, "NO_DETAIL") for one in sorted(bad)
            ]
            assert set(await here.tasks()) == {"SUCCEEDED"}
            assert await here.watermark() > made.end

    async def test_one_bad_id_is_found_by_halving_and_the_others_are_stored(self, beside):
        made = library()
        async with beside("generic", made, document=two_phases()) as here:
            bad = sorted(here.served())[7]
            spoiled(here.api, {bad}, refused=True)
            await here.harvest(since=made.start)
            assert set(await here.stored()) == set(here.served()) - {bad}
            (row,) = await here.rows("select provider_id, reason_code from ing_quarantine")
            assert row == {"provider_id": bad, "reason_code": "NO_DETAIL"}
            assert here.api.counts.by_status[400] <= 12
            assert set(await here.tasks()) == {"SUCCEEDED"}

    async def test_after_three_runs_a_bad_id_is_no_longer_asked_for(self, beside):
        made = library(30)
        async with beside("generic", made, document=two_phases()) as here:
            bad = min(here.served())
            spoiled(here.api, {bad}, refused=False)
            asked, answer = [], here.api.answer

            def note(request):
                asked.append(request.target)
                return answer(request)

            here.api.answer = note
            for day in range(4):
                asked.clear()
                await here.harvest(**({"since": made.start} if day == 0 else {}))
                assert any(bad in target for target in asked) == (day < 3), day
                made.advance(timedelta(hours=6))
            (row,) = await here.rows("select count(distinct run_id) as runs from ing_quarantine")
            assert row["runs"] == 3

    async def test_what_was_quarantined_is_fetched_again_by_id_and_released(self, beside):
        made = library(30)
        async with beside("generic", made, document=two_phases()) as here:
            bad = set(sorted(here.served())[:2])
            held = here.api.held
            spoiled(here.api, bad, refused=False)
            await here.harvest(since=made.start)
            here.api.held = held
            forward = await here.rows("select * from ing_cursor where operation_code = 'HARVEST'")
            wanted = Candidates(CandidateKind.SIGNALS)
            outcome = await here.harvest(operation=Operation.UPDATE, candidates=wanted)
            assert outcome.tasks == 1
            assert await here.stored() == here.served()
            rows = await here.rows("select released_at from ing_quarantine")
            assert all(row["released_at"] for row in rows)
            assert await here.rows("select * from ing_cursor where operation_code = 'HARVEST'") == forward
            assert (await here.plan(operation=Operation.UPDATE, candidates=wanted)).plan_id is None


class TestScans:
    async def test_a_scan_that_fails_at_its_details_leaves_none_out(self, beside):
        made = library()
        async with beside("generic", made, document=scanned_ids) as here:
            answer, asked = here.api.answer, []

            def without_details(request):
                asked.append(request.path)
                is_late = len(asked) > 3 and request.path.endswith("/details")
                return as_json({"error": "not now"}, 503) if is_late else answer(request)

            here.api.answer = without_details
            await here.harvest()
            assert await here.tasks() == {"FAILED": 1}
            here.api.answer = answer
            await here.harvest()
            assert await here.stored() == here.served()

    async def test_the_next_scan_goes_on_behind_the_last(self, beside):
        made = library()
        async with beside("generic", made, document=scanned_ids) as here:
            await here.harvest()
            assert await here.stored() == here.served()
            before = here.api.counts.total
            await here.harvest()
            assert here.api.counts.total - before <= 3  # the last page once more, and its details


class TestRefreshing:
    @pytest.mark.parametrize("refused", [False, True])
    @pytest.mark.parametrize("kind", [CandidateKind.STALE, CandidateKind.EXPRESSION])
    async def test_records_that_are_gone_do_not_stand_before_the_others(self, beside, kind, refused):
        made = library(30)
        async with beside("generic", made, document=two_phases()) as here:
            await here.harvest(since=made.start)
            gone = sorted(here.served())[:4]
            await here.rows("update ing_record set checked_at = '2020-01-01', expr_hash = 'old' returning 1")
            await here.rows("update ing_record set checked_at = '2019-01-01' where provider_id = any(%s) returning 1",
                            gone)  # fmt: skip
            spoiled(here.api, set(gone), refused=refused)
            for _ in range(2):
                await here.harvest(operation=Operation.UPDATE, candidates=Candidates(kind, limit=4))
            (row,) = await here.rows("select count(*) as n from ing_record where expr_hash <> 'old'")
            assert row["n"] == 4


class TestPubmed:
    async def test_a_list_longer_than_can_be_paged_is_cut_by_days(self, beside):
        made = Library(400, days=3, seed=4, habits=CALM)
        past(made)
        async with beside("pubmed", made) as here:
            small = {"pagination": {"ceiling": 200, "pageSize": 50}, "planning": {"sliceItems": 10_000},
                     "window": {"maxWindow": "4d"}}  # fmt: skip
            await here.harvest(since=made.start, run=small)
            assert set(await here.stored()) == set(here.served())

    async def test_records_are_refreshed_by_id(self, beside):
        made = Library(50, days=3, seed=4, habits=CALM)
        past(made)
        async with beside("pubmed", made) as here:
            await here.harvest(since=made.start)
            await here.rows("update ing_record set checked_at = '2020-01-01', body = 'old' returning 1")
            await here.harvest(operation=Operation.UPDATE)
            rows = await here.rows(
                "select count(*) as n from ing_record where body = 'old' or checked_at < '2021-01-01'"
            )
            assert rows == [{"n": 0}]
            (sums,) = await here.rows(
                "select sum((stats ->> 'updated')::int) as updated from ing_task_run where operation_code = 'UPDATE'"
            )
            assert sums["updated"] == len(here.served())


@pytest.mark.parametrize("records", [1, 20, 21])
async def test_edges_of_batches_lose_no_id(beside, records):
    made = library(records)
    async with beside("generic", made, document=two_phases()) as here:
        await here.harvest(since=made.start)
        assert await here.stored() == here.served()
