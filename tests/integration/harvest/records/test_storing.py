"""Pages of records into the table: the newest version of each, counted once, whoever comes first."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.records import EARLY, PLACE, page_of, stored

from penstock.harvest.page import FaultKind
from penstock.harvest.records import Counts, upsert
from penstock.harvest.spec import Operation
from penstock.kernel.db import Database, fetch_all, fetch_one

LATER = EARLY + timedelta(hours=1)


async def put(database: Database, *items, place=PLACE) -> Counts:
    async with database.transaction() as tx:
        return await upsert(tx, place, page_of(*items))


class TestNewerWins:
    async def test_new_records_are_inserted(self, database: Database):
        assert await put(database, ("a", EARLY, b"1"), ("b", EARLY, b"2")) == Counts(2, 0, 0)
        assert await stored(database) == {"a": (EARLY, None, "1", 1), "b": (EARLY, None, "2", 1)}

    async def test_a_newer_one_replaces(self, database: Database):
        await put(database, ("a", EARLY, b"1"))
        assert await put(database, ("a", LATER, b"2")) == Counts(0, 1, 0)
        assert await stored(database) == {"a": (LATER, None, "2", 2)}

    async def test_an_older_one_is_dropped(self, database: Database):
        await put(database, ("a", LATER, b"2"))
        assert await put(database, ("a", EARLY, b"1")) == Counts(0, 0, 1)
        assert await stored(database) == {"a": (LATER, None, "2", 1)}

    async def test_an_equal_one_keeps_what_is_there(self, database: Database):
        await put(database, ("a", EARLY, b"1"))
        assert await put(database, ("a", EARLY, b"2")) == Counts(0, 0, 1)
        assert await stored(database) == {"a": (EARLY, None, "1", 1)}

    async def test_between_equal_ones_the_greater_version_wins(self, database: Database):
        wins = {("9", "10"): True, ("10", "9"): False, ("1.9", "1.10"): False, ("v1", "v2"): True, ("v2", "v1"): False,
                ("7", "7"): False, ("9", "1a"): True, ("1a", "9"): False, (None, "2"): False, ("2", None): False,
                ("1.50", "1.5"): False, ("007", "8"): True, ("9" * 40, "8" * 40): False}  # fmt: skip
        await put(database, *((f"{held}<{given}", EARLY, b"1", held) for held, given in wins))
        await put(database, *((f"{held}<{given}", EARLY, b"2", given) for held, given in wins))
        records = await stored(database)
        assert {pair: records[f"{pair[0]}<{pair[1]}"][2] == "2" for pair in wins} == wins

    async def test_an_equal_one_with_other_content_replaces_where_the_source_is_read_so(self, database: Database):
        place = replace(PLACE, on_equal="REPLACE")
        await put(database, ("a", EARLY, b"1", "2"), ("b", EARLY, b"1"), place=place)
        given = (("a", EARLY, b"2", "2"), ("b", EARLY, b"1"))
        assert await put(database, *given, place=place) == Counts(0, 1, 1)
        assert await put(database, ("a", EARLY, b"3", "1"), place=place) == Counts(0, 0, 1), "a smaller version"

    async def test_what_the_source_deleted_keeps_its_row(self, database: Database):
        await put(database, ("a", EARLY, b"1"))
        page = page_of(("a", LATER, b""))
        page.deleted = [True]
        async with database.transaction() as tx:
            assert await upsert(tx, PLACE, page) == Counts(0, 1, 0)
            row = await fetch_one(tx, "select is_deleted, body from ing_record")
        assert row == {"is_deleted": True, "body": ""}

    async def test_sources_and_endpoints_are_apart(self, database: Database):
        await put(database, ("a", EARLY, b"1"))
        assert await put(database, ("a", EARLY, b"1"), place=replace(PLACE, endpoint_name="other")) == Counts(1, 0, 0)
        assert await put(database, ("a", EARLY, b"1"), place=replace(PLACE, provenance_code="x")) == Counts(1, 0, 0)


class TestTheSameIdTwiceInAPage:
    async def test_the_newest_counts_and_the_others_are_skipped(self, database: Database):
        counts = await put(database, ("a", EARLY, b"1"), ("a", LATER, b"2"), ("a", EARLY, b"3"), ("b", EARLY, b"4"))
        assert counts == Counts(2, 0, 2)
        assert await stored(database) == {"a": (LATER, None, "2", 1), "b": (EARLY, None, "4", 1)}

    async def test_between_equal_ones_the_greater_version_counts(self, database: Database):
        await put(database, ("a", EARLY, b"1", "9"), ("a", EARLY, b"2", "10"), ("a", EARLY, b"3", "8"))
        assert (await stored(database))["a"][1] == "10"

    async def test_otherwise_the_first_one_or_the_last_one_by_the_source_s_rule(self, database: Database):
        twice = (("a", EARLY, b"1"), ("a", EARLY, b"2"))
        await put(database, *twice)
        await put(database, *twice, place=replace(PLACE, endpoint_name="other", on_equal="REPLACE"))
        async with database.transaction() as tx:
            rows = await fetch_all(tx, "select body from ing_record order by endpoint_name = 'other'")
        assert [row["body"] for row in rows] == ["1", "2"]


class TestReadingAgain:
    @pytest.mark.parametrize("size", [5, 200])
    async def test_nothing_is_written_for_what_is_known(self, database: Database, size: int):
        items = [(f"id{n:04}", EARLY, b"x") for n in range(size)]
        assert await put(database, *items) == Counts(size, 0, 0)
        async with database.transaction() as tx:
            before = await fetch_all(tx, "select ctid, xmin, xmax from ing_record order by provider_id")
        assert await put(database, *items) == Counts(0, 0, size)
        async with database.transaction() as tx:
            assert await fetch_all(tx, "select ctid, xmin, xmax from ing_record order by provider_id") == before

    async def test_what_has_changed_since_is_found_among_what_has_not(self, database: Database):
        await put(database, *((f"id{n:04}", EARLY, b"x") for n in range(200)))
        mixed = [(f"id{n:04}", LATER if n % 2 else EARLY, b"y") for n in range(250)]
        assert await put(database, *mixed) == Counts(50, 100, 100)

    async def test_one_known_record_among_many_new_ones_is_skipped_although_no_sample_hits_it(self, database: Database):
        await put(database, ("id0001", EARLY, b"x"))
        assert await put(database, *((f"id{n:04}", EARLY, b"y") for n in range(200))) == Counts(199, 0, 1)


class TestMarkingAsSeen:
    async def _age(self, database: Database, days: float) -> None:
        async with database.transaction() as tx:
            await tx.execute("update ing_record set checked_at = now() - %s", (timedelta(days=days),))

    async def _ages(self, database: Database) -> list[bool]:
        async with database.transaction() as tx:
            rows = await fetch_all(
                tx, "select checked_at > now() - interval '1 hour' as new from ing_record order by provider_id"
            )
        return [row["new"] for row in rows]

    @pytest.mark.parametrize("size", [3, 100])
    async def test_a_known_record_is_marked_once_a_day(self, database: Database, size: int):
        items = [(f"id{n:04}", EARLY, b"x") for n in range(size)]
        await put(database, *items)
        await self._age(database, 0.5)
        await put(database, *items)
        assert await self._ages(database) == [False] * size
        await self._age(database, 1.5)
        await put(database, *items)
        assert await self._ages(database) == [True] * size

    async def test_an_update_marks_every_record_it_sees(self, database: Database):
        await put(database, ("a", LATER, b"x"), ("b", LATER, b"x"), ("c", LATER, b"x"))
        await self._age(database, 0.5)
        update = replace(PLACE, operation=Operation.UPDATE)
        assert await put(database, ("a", LATER, b"x"), ("b", EARLY, b"y"), place=update) == Counts(0, 0, 2)
        assert await self._ages(database) == [True, True, False]

    async def test_an_update_after_a_change_of_the_reading_reads_anew(self, database: Database):
        await put(database, ("a", EARLY, b"1"), ("b", EARLY, b"1"))
        update = replace(PLACE, operation=Operation.UPDATE, expr_hash="other")
        page = page_of(("a", EARLY, b"1"), ("b", EARLY, b"1"))
        page.fields = [b'{"title":"x"}', b"null"]
        async with database.transaction() as tx:
            assert (await upsert(tx, update, page)).updated >= 1
            rows = await fetch_all(tx, "select expr_hash, fields from ing_record order by provider_id")
        assert [row["expr_hash"] for row in rows] == ["other", "other"], "or they would be candidates for ever"
        assert rows[0]["fields"] == {"title": "x"}

    async def test_a_record_that_somebody_holds_is_not_waited_for(self, database: Database):
        await put(database, ("a", EARLY, b"x"))
        await self._age(database, 2)
        async with database.transaction() as other:
            await other.execute("select from ing_record for update")
            async with asyncio.timeout(10):
                assert await put(database, ("a", EARLY, b"x")) == Counts(0, 0, 1)


class TestWhatCannotBeStored:
    async def test_it_becomes_a_fault_and_the_others_are_stored(self, database: Database):
        page = page_of(
            ("a", EARLY, b"good"), ("", EARLY, b"x"), ("n\0l", EARLY, b"x"), ("l" * 900, EARLY, b"x"),
            ("nul", EARLY, b"a\0b"), ("bytes", EARLY, b"\xff"), ("half\ud800", EARLY, b"x"), ("v", EARLY, b"x", "\0"),
        )  # fmt: skip
        page.served = 8
        async with database.transaction() as tx:
            assert await upsert(tx, PLACE, page) == Counts(1, 0, 0)
        assert [fault.kind for fault in page.faults] == [
            *[FaultKind.NO_ID] * 3, FaultKind.NOT_READABLE, FaultKind.NOT_READABLE, FaultKind.NO_ID,
            FaultKind.NOT_READABLE,
        ]  # fmt: skip
        assert [fault.item_no for fault in page.faults] == list(range(8, 15))
        assert list(await stored(database)) == ["a"]

    async def test_a_letter_cut_in_two_is_not_mended_by_its_neighbour(self, database: Database):
        page = page_of(("a", EARLY, "é".encode()[:1]), ("b", EARLY, "é".encode()[1:]))
        async with database.transaction() as tx:
            assert await upsert(tx, PLACE, page) == Counts(0, 0, 0)

    async def test_a_nul_in_a_mapped_field_is_shown_as_a_replacement(self, database: Database):
        page = page_of(("a", EARLY, rb'{"t":"x\u0000y"}'))
        page.fields = [rb'{"t":"x\u0000y","u":"\\u0000"}']
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page)
            row = await fetch_one(tx, "select body, fields from ing_record")
        assert row == {"body": r'{"t":"x\u0000y"}', "fields": {"t": "x\ufffdy", "u": r"\u0000"}}

    async def test_other_arrays_on_the_connection_are_sent_as_ever(self, database: Database):
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page_of(("a", EARLY, b"1")))
            await tx.execute("create temp table kept (names text[], times timestamptz[])")
            async with tx.cursor().copy("copy kept from stdin (format binary)") as copy:
                copy.set_types(["text[]", "timestamptz[]"])
                await copy.write_row([["x", "y"], [EARLY]])
            assert await fetch_one(tx, "select * from kept") == {"names": ["x", "y"], "times": [EARLY]}

    async def test_an_empty_page_is_nothing(self, database: Database):
        assert await put(database) == Counts(0, 0, 0)

    async def test_text_of_every_kind_comes_back_as_it_came(self, database: Database):
        odd = '\\ \t\n\r " \\N \\. {} 中文 😀'
        await put(database, (odd.strip(), EARLY, odd.encode()))
        assert await stored(database) == {odd.strip(): (EARLY, None, odd, 1)}


class TestAnnouncing:
    async def _events(self, database: Database):
        async with database.transaction() as tx:
            return await fetch_all(tx, "select event_type, entity_id, payload from outbox_events order by event_id")

    async def test_each_stored_version_is_told_without_its_body(self, database: Database):
        place = replace(PLACE, announces=True)
        await put(database, ("a", EARLY, b"secret body"), ("b", EARLY, b"x"), place=place)
        await put(database, ("a", LATER, b"2"), ("b", EARLY, b"x"), place=place)
        first, second = await self._events(database)
        assert (first["event_type"], first["entity_id"]) == ("record.changed", "crossref/works")
        assert [each["providerId"] for each in first["payload"]["records"]] == ["a", "b"]
        assert second["payload"]["records"] == [
            {"id": "crossref/works/a", "providerId": "a", "updatedAt": "2024-05-01T01:00:00Z", "revision": 2,
             "isDeleted": False}
        ]  # fmt: skip
        assert "secret body" not in str(first)

    async def test_fifty_share_an_event(self, database: Database):
        place = replace(PLACE, announces=True)
        await put(database, *((f"id{n:03}", EARLY, b"x") for n in range(120)), place=place)
        assert [len(event["payload"]["records"]) for event in await self._events(database)] == [50, 50, 20]

    async def test_others_are_not_told(self, database: Database):
        await put(database, ("a", EARLY, b"1"))
        assert await self._events(database) == []


KILLED_PROGRAM = """
import asyncio, os, signal, sys
from tests.support.records import EARLY, PLACE, page_of
from dataclasses import replace
from penstock.harvest.records import upsert
from penstock.kernel.db import Database

async def main():
    database = Database(sys.argv[1], name="killed")
    await database.open()
    async with database.transaction() as tx:
        await upsert(tx, replace(PLACE, announces=True), page_of(*((f"id{n}", EARLY, b"x") for n in range(100))))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


class TestKilledBeforeTheCommit:
    async def test_nothing_of_the_page_is_there_and_the_next_try_counts_all_of_it(
        self, database: Database, database_url: str
    ):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", KILLED_PROGRAM, database_url], env=environment, check=False
        )
        assert done.returncode == -signal.SIGKILL
        assert await stored(database) == {}
        place = replace(PLACE, announces=True)
        counts = await put(database, *((f"id{n}", EARLY, b"x") for n in range(100)), place=place)
        assert counts == Counts(100, 0, 0)
        async with database.transaction() as tx:
            told = await fetch_one(tx, "select sum(jsonb_array_length(payload->'records')) as n from outbox_events")
        assert told == {"n": 100}


class TestManyAtOnce:
    async def test_pages_with_the_same_ids_do_not_block_each_other_for_ever(self, database: Database):
        """Each page lists the ids in another order; the newest ends up stored and every version is counted once."""

        async def one(number: int) -> Counts:
            ids = [f"id{n:03}" for n in range(100)]
            turned = ids[number * 7 :] + ids[: number * 7]
            when = datetime(2024, 1, 1 + number, tzinfo=UTC)
            return await put(database, *((given, when, b"%d" % number) for given in turned))

        async with asyncio.timeout(60):
            counts = await asyncio.gather(*(one(number) for number in (3, 7, 1, 9, 0, 5, 8, 2)))
        records = await stored(database)
        assert {body for _, _, body, _ in records.values()} == {"9"}
        assert sum(each.inserted for each in counts) == 100
        assert sum(each.inserted + each.updated for each in counts) == sum(
            revision for *_, revision in records.values()
        )
        assert all(each.inserted + each.updated + each.skipped == 100 for each in counts)
