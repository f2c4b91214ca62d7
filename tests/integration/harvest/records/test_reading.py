"""Looking at records: filters, pages by id, the endpoint that is meant."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.records import EARLY, PLACE, page_of

from penstock.harvest.records import (
    Selection,
    count_records,
    endpoint_of,
    parse_where,
    read_record,
    select_records,
    upsert,
)
from penstock.kernel import error_codes
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError


@pytest.fixture(autouse=True)
async def _records(database: Database):
    page = page_of(
        ("a", EARLY, b'{"x": 1}', "1"),
        ("b", EARLY + timedelta(days=1), b'{"x": 2}', "2"),
        ("c", EARLY + timedelta(days=2), b"<c/>", None),
        ("d", EARLY + timedelta(days=3), b'{"x": 4}', None),
    )
    page.fields = [
        b'{"title":"Heart failure","pages":9}', b'{"title":"Lung cancer 100%","pages":10}', b"null",
        b'{"title":"heart","pages":"n/a"}',
    ]  # fmt: skip
    page.deleted = [False, False, False, True]
    async with database.transaction() as tx:
        await upsert(tx, replace(PLACE, run_id=12), page)


async def ids(database: Database, where: str, **options) -> str:
    async with database.transaction() as tx:
        chosen = Selection("crossref", "works", parse_where(where))
        rows = await select_records(tx, chosen, **{"limit": 100, **options})
        if not options:
            assert await count_records(tx, chosen) == len(rows)
    return "".join(row["provider_id"] for row in rows)


FOUND = {
    "": "abcd",
    "updated_at >= 2024-05-02": "bcd",
    "updated_at = 2024-05-02": "b",
    "provider_id = a": "a",
    "id > b": "cd",
    "deleted = true": "d",
    "deleted != true": "abc",
    "version != 1": "bcd",
    "run = 12 and revision = 1": "abcd",
    "run < 12": "",
    "fields.title ~ HEART": "ad",
    'fields.title ~ "100%"': "b",
    'fields.title ~ "heart%"': "",
    "fields.pages > 9": "bd",
    "fields.pages = 9": "a",
    "fields.pages = n/a": "d",
    "fields.nothing = 1": "",
    'body ~ "<c"': "c",
    "checked_at > 2024-01-01 and changed_at > 2024-01-01 and first_seen_at > 2024-01-01": "abcd",
    "expr_hash = hash and deleted = false and fields.title ~ cancer": "b",
}


class TestFiltering:
    async def test_each_filter_finds_what_is_meant(self, database: Database):
        assert {where: await ids(database, where) for where in FOUND} == FOUND


class TestPaging:
    async def test_it_goes_on_after_the_last_one_seen(self, database: Database):
        assert await ids(database, "", limit=2) == "ab"
        assert await ids(database, "", limit=2, after="b") == "cd"
        assert await ids(database, "", limit=2, after="d") == ""

    async def test_one_is_read_with_its_body(self, database: Database):
        async with database.transaction() as tx:
            found = await read_record(tx, Selection("crossref", "works"), "c")
            assert found is not None
            assert found["body"] == "<c/>"
            assert await read_record(tx, Selection("crossref", "works"), "z") is None


class TestTheEndpointThatIsMeant:
    async def test_the_only_one_with_records(self, database: Database):
        async with database.transaction() as tx:
            assert await endpoint_of(tx, "crossref", None) == "works"
            assert await endpoint_of(tx, "crossref", "works") == "works"

    async def test_the_default_of_several(self, database: Database):
        async with database.transaction() as tx:
            await upsert(tx, replace(PLACE, endpoint_name="members"), page_of(("m", EARLY, b"1")))
            with pytest.raises(PenstockError) as several:
                await endpoint_of(tx, "crossref", None)
            assert several.value.details["endpoints"] == ["members", "works"]
            await tx.execute(
                "insert into reg_prov_endpoint_def (provenance_code, endpoint_name, role_code, is_default)"
                " values ('crossref', 'works', 'SEARCH', true), ('crossref', 'funders', 'SEARCH', false)"
            )
            assert await endpoint_of(tx, "crossref", None) == "works"
            assert await endpoint_of(tx, "crossref", "funders") == "funders"

    @pytest.mark.parametrize(
        ("source", "endpoint", "code"),
        [("nobody", None, error_codes.SOURCE_UNKNOWN), ("crossref", "journals", error_codes.ENDPOINT_UNKNOWN)],
    )
    async def test_an_unknown_one_is_refused(self, database: Database, source, endpoint, code):
        async with database.transaction() as tx:
            with pytest.raises(PenstockError) as refused:
                await endpoint_of(tx, source, endpoint)
        assert refused.value.code is code
