"""What a harvest makes of the versions that it meets, and the counts that say so."""

from datetime import timedelta

import pytest
from tests.standins import Habits, Library
from tests.standins.wire import as_json
from tests.support.harvesting import DETAILS, past, written

from penstock.harvest.spec import Operation

WINDOW = {"supportsUpdatedSince": True, "overlap": "2d"}
FIELDS = {"outputFields": [{"name": "title", "expr": "$.title"}, {"name": "subject", "expr": "$.subject"}]}


def shelf(*items: dict):
    """A source that holds these, whatever is asked for."""

    def answer(request):
        return as_json({"items": [{"id": "a", "updated": "2026-01-01T01:00:00Z", **item} for item in items],
                        "total": len(items)})  # fmt: skip

    return answer


def library(records: int = 1, days: float = 1) -> Library:
    made = Library(records, days=days, seed=9, habits=Habits(late=0.0, deleted=0.1, revised=0.4))
    past(made, beyond=timedelta(hours=12))
    return made


async def harvested(here, *items: dict) -> dict:
    """One more harvest of these; returns the record of the first."""
    here.api.answer = shelf(*items)
    here.library.advance(timedelta(hours=1))
    await here.harvest(**({} if await here.rows("select 1 from ing_cursor") else {"since": here.library.start}))
    rows = await here.rows("select *, body::json ->> 'title' as title from ing_record where provider_id = 'a'")
    return rows[0]


async def announced(here) -> list[dict]:
    rows = await here.rows("select payload from outbox_events where event_type = 'record.changed' order by event_id")
    return [each for row in rows for each in row["payload"]["records"]]


class TestVersions:
    async def test_a_newer_one_replaces_and_an_older_one_does_not(self, beside):
        async with beside("generic", library(), document=written("offset", window=WINDOW)) as here:
            await harvested(here, {"title": "first"})
            record = await harvested(here, {"title": "newer", "updated": "2026-01-01T02:00:00Z"})
            assert (record["title"], record["revision"]) == ("newer", 2)
            record = await harvested(here, {"title": "older", "updated": "2026-01-01T01:30:00Z"})
            assert (record["title"], record["revision"]) == ("newer", 2)

    @pytest.mark.parametrize(("rule", "kept"), [("KEEP", "first"), ("REPLACE", "second")])
    async def test_between_equal_ones_the_source_decides(self, beside, rule, kept):
        document = written("offset", window=WINDOW, response={"onEqual": rule})
        async with beside("generic", library(), document=document) as here:
            await harvested(here, {"title": "first"})
            record = await harvested(here, {"title": "second"})
            assert record["title"] == kept
            await here.rows("update ing_record set checked_at = '2020-01-01' returning 1")
            again = await harvested(here, {"title": kept})
            assert (again["revision"], again["changed_at"]) == (record["revision"], record["changed_at"])
            assert again["checked_at"] >= record["checked_at"]

    async def test_between_equal_times_the_higher_version_holds(self, beside):
        document = written("offset", window=WINDOW, response={"versionPath": "$.version"})
        async with beside("generic", library(), document=document) as here:
            await harvested(here, {"title": "nine", "version": 9})
            assert (await harvested(here, {"title": "ten", "version": 10}))["title"] == "ten"
            assert (await harvested(here, {"title": "two", "version": 2}))["title"] == "ten"

    async def test_a_deleted_one_keeps_its_row_marked(self, beside):
        async with beside("generic", library(), document=written("offset", window=WINDOW)) as here:
            await harvested(here, {"title": "there", "deleted": False})
            record = await harvested(here, {"title": "gone", "deleted": True, "updated": "2026-01-01T03:00:00Z"})
            assert record["is_deleted"]

    async def test_mapped_fields_are_stored_beside_the_body(self, beside):
        async with beside("generic", library(), document=written("offset", window=WINDOW, mapping=FIELDS)) as here:
            record = await harvested(here, {"title": "A", "subject": "asthma"})
            assert record["fields"] == {"title": "A", "subject": "asthma"}


class TestAnnouncing:
    async def test_each_stored_version_is_one_event_where_the_source_has_a_sink(self, beside):
        document = written("offset", window=WINDOW, mapping={**FIELDS, "sink": True})
        async with beside("generic", library(), document=document) as here:
            await harvested(here, {"title": "first"}, {"id": "b", "title": "other"})
            await harvested(here, {"title": "first"}, {"id": "b", "title": "other"})
            await harvested(here, {"title": "newer", "updated": "2026-01-01T02:00:00Z"}, {"id": "b", "title": "other"})
            told = [(each["providerId"], each["revision"]) for each in await announced(here)]
            assert told == [("a", 1), ("b", 1), ("a", 2)]

    async def test_without_a_sink_nothing_is_announced(self, beside):
        async with beside("generic", library(), document=written("offset", window=WINDOW)) as here:
            await harvested(here, {"title": "first"})
            assert await announced(here) == []

    async def test_a_sink_of_the_details_alone_is_enough(self, beside):
        details = {**DETAILS, "mapping": {"sink": True}}
        document = written("offset", linkedEndpoint="details", endpoints={"details": details})
        made = library(5)
        async with beside("generic", made, document=document) as here:
            await here.harvest(since=made.start)
            await here.rows("update ing_record set checked_at = '2020-01-01', updated_at = '2020-01-01' returning 1")
            await here.harvest(operation=Operation.UPDATE)
            there = {one for one, each in (await here.stored()).items() if not each.is_deleted}
            assert {each["providerId"] for each in await announced(here)} == there


async def sums_of(here, table: str, served: str) -> dict:
    names = {"inserted": "inserted", "updated": "updated", "skipped": "skipped", "served": served}
    sums = ", ".join(f"sum((stats ->> '{key}')::int)::int as {name}" for name, key in names.items())
    return (await here.rows(f"select {sums} from {table}"))[0]


class TestCounts:
    async def test_batches_and_runs_add_up_to_what_was_served(self, beside):
        made = library(300, days=2)
        past(made, 0.6)
        async with beside("generic", made, document=written("token", window={"overlap": "1d"})) as here:
            await here.harvest(since=made.start)
            first = await here.stored()
            past(made)
            await here.harvest()
            final = await here.stored()
            assert final == here.served()
            runs = await sums_of(here, "ing_task_run", "retCount")
            batches = await sums_of(here, "ing_task_run_batch", "itemsCount")
            assert runs == batches
            assert runs["inserted"] == len(final)
            assert runs["updated"] == sum(final[one] != first[one] for one in first)
            assert runs["inserted"] + runs["updated"] + runs["skipped"] == runs["served"]
            revisions = await here.rows("select sum(revision - 1)::int as n from ing_record")
            assert revisions == [{"n": runs["updated"]}]
