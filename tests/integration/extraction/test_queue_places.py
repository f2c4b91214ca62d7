"""Places in the queue are counted one after the other, however many come at once."""

import asyncio

import pytest
from tests.support.etl import until

from penstock.extraction.queue_places import take_place
from penstock.extraction.settings import EtlSettings
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError

ONE_EACH = EtlSettings(queue_size=2, queue_share=0.5)
_INSERT = """
insert into etl_task (merchant_id, user_id, rule_id, rule_version, rule, source, source_key, filename, media_type,
                      size_bytes, provider)
values (%s, 'u', 1, 1, '{}', '{}', 'k', 'a.pdf', 'application/pdf', 1, 'local')
"""


async def add(database: Database, merchant: str) -> None:
    async with database.transaction() as tx:
        await take_place(tx, merchant, ONE_EACH)
        await tx.execute(_INSERT, (merchant,))


async def refusal(database: Database, merchant: str) -> str:
    with pytest.raises(PenstockError) as refused:
        await add(database, merchant)
    return refused.value.code.code


class TestPlaces:
    async def test_whoever_comes_second_counts_after_the_first_has_committed(self, database):
        async def waits():
            async with database.transaction() as tx:
                return await fetch_all(tx, "select 1 from pg_locks where locktype = 'advisory' and not granted")

        async with database.transaction() as tx:
            await take_place(tx, "m1", ONE_EACH)
            second = asyncio.create_task(refusal(database, "m1"))
            await until(waits, 20, "the second waits")
            await tx.execute(_INSERT, ("m1",))
        assert await second == "ETL_QUEUE_SHARE_FULL"

    async def test_without_a_transaction_nothing_would_be_held(self, database):
        async with database.statement() as tx:
            with pytest.raises(RuntimeError):
                await take_place(tx, "m1", ONE_EACH)

    async def test_a_share_that_is_taken_leaves_the_others_theirs(self, database):
        await add(database, "m1")
        assert await refusal(database, "m1") == "ETL_QUEUE_SHARE_FULL"
        await add(database, "m2")
        assert await refusal(database, "m3") == "ETL_QUEUE_FULL"
