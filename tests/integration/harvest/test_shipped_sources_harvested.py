"""The sources that ship, planned and carried out: what they hold is stored, changes follow, cursors keep apart."""

import asyncio
from datetime import timedelta

import pytest
from tests.standins import Library, overrides
from tests.support.harvesting import HASTY, QUICK, SOURCES, past

from penstock.harvest.planning.signals import Reason, raise_signals
from penstock.harvest.planning.trigger import Candidates
from penstock.harvest.schedule_params import CandidateKind
from penstock.harvest.spec import Operation

NAMES = sorted(path.stem for path in SOURCES.glob("*.yaml"))
BY_DAY = {"pubmed", "europepmc"}
each_source = pytest.mark.parametrize("name", NAMES)


def library(records: int = 240) -> Library:
    made = Library(records, days=4, seed=7)
    past(made, 0.75)
    return made


def by_id(here, **more) -> dict:
    """A run that fetches by id also says where the linked endpoint is."""
    sections = {**overrides(here.source, here.api.url, detail=True), "retry": HASTY, "rateLimit": QUICK, **more}
    return {**sections, "detail": {**sections["detail"], "rateLimit": QUICK, "retry": HASTY}}


def expected(here, before) -> dict:
    """Ids that must be stored, with the stamp where the source tells one."""
    tells = here.source != "europepmc"
    return {one: shown.updated if tells else None for one, shown in here.served(before).items()}


def seen(here, stored) -> dict:
    return {one: each.updated if here.source != "europepmc" else None for one, each in stored.items()}


class TestForward:
    @each_source
    async def test_the_first_stores_what_is_there_the_second_exactly_the_changes_the_third_nothing(self, beside, name):
        made = library()
        async with beside(name, made) as here:
            await here.harvest(since=made.start)
            first = await here.watermark()
            assert made.start < first < made.now
            stored = seen(here, await here.stored())
            if name == "arxiv":  # by submission alone
                ids = {here.api.id_of(entry.number) for entry in made.at(made.now).values() if entry.created < first}
                assert stored.keys() == ids
            else:
                assert stored == expected(here, first)
            past(made)
            await here.harvest()
            assert await here.watermark() > made.end
            final = seen(here, await here.stored())
            assert final.keys() == here.served().keys()
            if name != "arxiv":
                assert final == expected(here, None)
            (sums,) = await here.rows(
                "select sum((r.stats ->> 'inserted')::int) as inserted, sum((r.stats ->> 'updated')::int) as updated"
                " from ing_task_run r join ing_task t on t.id = r.task_id"
                " where t.plan_id = (select max(id) from ing_plan)"
            )
            assert sums["inserted"] == len(final) - len(stored)
            if name not in BY_DAY | {"arxiv", "oai_pmh"}:
                changed = [one for one in stored if final[one] != stored[one]]
                assert sums["updated"] == len(changed)
            before = await here.rows("select provider_id, revision, changed_at from ing_record order by 1")
            made.advance(timedelta(days=1))
            await here.harvest()
            assert await here.rows("select provider_id, revision, changed_at from ing_record order by 1") == before


class TestBackward:
    @each_source
    async def test_a_backfill_fetches_the_older_window_and_leaves_the_watermark_alone(self, beside, name):
        made = library(120)
        past(made)
        middle = made.start + timedelta(days=2)
        async with beside(name, made) as here:
            await here.harvest(since=middle)
            forward = await here.rows("select * from ing_cursor where operation_code = 'HARVEST'")
            held = set(await here.stored())
            await here.harvest(operation=Operation.BACKFILL, since=made.start)
            assert held < set(await here.stored()) == set(here.served())
            assert await here.rows("select * from ing_cursor where operation_code = 'HARVEST'") == forward
            (back,) = await here.rows("select * from ing_cursor where operation_code = 'BACKFILL'")
            assert (back["namespace_scope_code"], back["direction_code"]) == ("CUSTOM", "BACKFILL")
            assert (back["cursor_type_code"], back["cursor_key"]) == ("TIME", forward[0]["cursor_key"])
            assert back["normalized_instant"] == made.start
            assert forward[0]["namespace_scope_code"] == "EXPR"
            assert forward[0]["direction_code"] == "FORWARD"


class TestAgain:
    @each_source
    async def test_stale_records_are_looked_at_again_by_id(self, beside, name):
        made = library(20)
        past(made)
        async with beside(name, made) as here:
            await here.harvest(since=made.start)
            forward = await here.rows("select * from ing_cursor where operation_code = 'HARVEST'")
            await here.rows("update ing_record set checked_at = now() - interval '60 days' returning 1")
            before = await here.rows("select provider_id, revision, updated_at from ing_record order by 1")
            await here.harvest(operation=Operation.UPDATE, run=by_id(here))
            old = "select 1 from ing_record where checked_at < now() - interval '1 day' and not is_deleted"
            assert await here.rows(old) == []
            after = await here.rows("select provider_id, revision, updated_at from ing_record order by 1")
            assert after == before  # nothing has changed at the source
            (cursor,) = await here.rows("select * from ing_cursor where operation_code = 'UPDATE'")
            assert cursor["namespace_scope_code"] == "CUSTOM"
            assert (cursor["cursor_key"], cursor["cursor_type_code"]) == ("refresh_checked_at", "TIME")
            assert cursor["direction_code"] == "FORWARD"
            assert await here.rows("select * from ing_cursor where operation_code = 'HARVEST'") == forward
            assert set(await here.tasks()) == {"SUCCEEDED"}

    async def test_records_read_by_other_rules_are_read_again_by_todays(self, beside):
        made = library(40)
        past(made)
        async with beside("crossref", made) as here:
            await here.harvest(since=made.start)
            fields = {"outputFields": [{"name": "publisher", "expr": "$.publisher"}]}
            run = by_id(here, mapping=fields, response={"onEqual": "REPLACE"})
            run["detail"] |= {"mapping": fields, "response": {"onEqual": "REPLACE"}}
            await here.harvest(operation=Operation.UPDATE, run=run, candidates=Candidates(CandidateKind.EXPRESSION))
            rows = await here.rows("select distinct fields from ing_record")
            assert [row["fields"] for row in rows] == [{"publisher": "Lab Press"}]
            again = await here.plan(
                operation=Operation.UPDATE, run=run, candidates=Candidates(CandidateKind.EXPRESSION)
            )
            assert again.plan_id is None
            (cursor,) = await here.rows("select * from ing_cursor where operation_code = 'UPDATE'")
            assert (cursor["cursor_key"], cursor["cursor_type_code"]) == ("provider_id", "ID")
            assert cursor["normalized_numeric"] == len(here.served())

    async def test_signals_bring_what_was_named_and_nothing_else(self, beside):
        made = library(40)
        past(made)
        async with beside("crossref", made) as here:
            await here.harvest(since=made.start)
            await here.rows("update ing_record set checked_at = '2020-01-01' returning 1")
            named = sorted(here.served())[:5]
            async with here.database.transaction() as tx:
                await raise_signals(tx, "crossref", "works", named, Reason("RETRACTION", "ann"))
            wanted = Candidates(CandidateKind.SIGNALS)
            await here.harvest(operation=Operation.UPDATE, run=by_id(here), candidates=wanted)
            rows = await here.rows("select provider_id from ing_record where checked_at > '2021-01-01' order by 1")
            assert [row["provider_id"] for row in rows] == named
            assert (await here.plan(operation=Operation.UPDATE, run=by_id(here), candidates=wanted)).plan_id is None


class TestSideBySide:
    async def test_all_three_at_once_on_one_source_do_not_disturb_each_other(self, beside):
        made = library(400)
        async with beside("crossref", made) as here:
            await here.harvest(since=made.start + timedelta(days=1))
            await here.rows("update ing_record set checked_at = now() - interval '60 days' returning 1")
            past(made)
            small = {"pagination": {"pageSize": 20}}
            await asyncio.gather(
                here.plan(run=small),
                here.plan(run=small),
                here.plan(operation=Operation.BACKFILL, since=made.start, run=small),
                here.plan(operation=Operation.UPDATE, run=by_id(here, planning={"idsPerSlice": 20})),
            )
            await here.drain(executors=2)
            assert set(await here.tasks()) == {"SUCCEEDED"}
            assert await here.stored() == here.served()
            cursors = await here.rows("select operation_code, namespace_key from ing_cursor order by 1")
            assert [row["operation_code"] for row in cursors] == ["BACKFILL", "HARVEST", "UPDATE"]
            assert len({row["namespace_key"] for row in cursors}) == 3
            assert await here.watermark() > made.end
            windows = await here.rows(
                "select window_from from ing_task where operation_code = 'HARVEST' group by 1 having count(*) > 1"
            )
            assert windows == []
