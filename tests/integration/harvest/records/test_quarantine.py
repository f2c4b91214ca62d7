"""What is no record is kept apart, with evidence, until it is one."""

from dataclasses import replace

from tests.support.records import EARLY, PLACE, page_of

from penstock.harvest.page import Fault, FaultKind
from penstock.harvest.records import list_quarantine, quarantine, upsert
from penstock.kernel.db import Database

REQUEST = {"method": "GET", "url": "https://example.org/works"}


def fault(number: int, given: str | None = None, sample: bytes = b"{}") -> Fault:
    return Fault(number, FaultKind.BAD_UPDATED_AT, "not a date: 'soon'", sample, given)


def shown(sample: bytes) -> str:
    return sample.decode(errors="replace")


async def keep(database: Database, *faults: Fault, mask=shown, place=PLACE) -> None:
    async with database.transaction() as tx:
        await quarantine(tx, place, faults, REQUEST, mask)


async def listed(database: Database, **options):
    async with database.transaction() as tx:
        return await list_quarantine(tx, "crossref", **options)


class TestKeepingEvidence:
    async def test_each_fault_is_a_row_with_its_request_and_sample(self, database: Database):
        await keep(database, fault(3, "a", b'{"date":"soon"}'), fault(4))
        newer, older = await listed(database)
        assert (older["provider_id"], older["item_no"], older["reason_code"]) == ("a", 3, "BAD_UPDATED_AT")
        assert (older["sample"], older["request"], older["run_id"]) == ('{"date":"soon"}', REQUEST, 1)
        assert newer["provider_id"] is None

    async def test_a_sample_is_masked_before_it_is_cut_to_a_kilobyte(self, database: Database):
        sample = b"x" * 1019 + b"token=hunter2" + "é".encode() * 600
        await keep(database, fault(0, sample=sample), mask=lambda raw: shown(raw).replace("token=hunter2", "tok*"))
        (row,) = await listed(database)
        assert len(row["sample"].encode()) <= 1024
        assert row["sample"].endswith("tok*")

    async def test_what_postgresql_cannot_store_is_shown_as_a_replacement(self, database: Database):
        await keep(database, fault(0, "a\0b", b"\0\xff"))
        (row,) = await listed(database)
        assert (row["provider_id"], row["sample"]) == ("a\ufffdb", "\ufffd\ufffd")

    async def test_the_same_batch_again_adds_nothing(self, database: Database):
        await keep(database, fault(0), fault(1))
        await keep(database, fault(0), fault(1))
        assert len(await listed(database)) == 2

    async def test_no_faults_are_no_rows(self, database: Database):
        await keep(database)
        assert await listed(database) == []

    async def test_the_list_goes_on_where_it_ended(self, database: Database):
        await keep(database, *(fault(number) for number in range(5)))
        first = await listed(database, limit=3)
        rest = await listed(database, before=first[-1]["id"])
        assert [row["item_no"] for row in first + rest] == [4, 3, 2, 1, 0]


class TestReleasing:
    async def test_a_stored_record_releases_what_was_kept_of_it(self, database: Database):
        await keep(database, fault(0, "a"), fault(1, "a"), fault(2, "b"))
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page_of(("a", EARLY, b"1")))
        assert [row["provider_id"] for row in await listed(database)] == ["b"]
        assert len(await listed(database, is_open=False)) == 3

    async def test_a_record_that_was_not_stored_releases_nothing(self, database: Database):
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page_of(("a", EARLY, b"1")))
        await keep(database, fault(0, "a"))
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page_of(("a", EARLY, b"1")))
        assert len(await listed(database)) == 1

    async def test_details_that_came_back_release_their_id_even_if_they_are_known(self, database: Database):
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page_of(("a", EARLY, b"1"), ("b", EARLY, b"1")))
        await keep(database, replace(fault(0, "a"), kind=FaultKind.NO_DETAIL), fault(1, "b"))
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page_of(("a", EARLY, b"1"), ("b", EARLY, b"1")))
        assert [row["provider_id"] for row in await listed(database)] == ["b"]

    async def test_other_endpoints_keep_theirs(self, database: Database):
        await keep(database, fault(0, "a"), place=replace(PLACE, endpoint_name="other"))
        async with database.transaction() as tx:
            await upsert(tx, PLACE, page_of(("a", EARLY, b"1")))
        assert len(await listed(database)) == 1
