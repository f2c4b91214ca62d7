"""A message from outside takes effect once."""

import asyncio
from datetime import timedelta

import pytest

from penstock.kernel import inbox
from penstock.kernel.db import fetch_all
from penstock.kernel.inbox import first_time


class TestReceiving:
    async def test_of_many_deliveries_at_once_one_takes_effect(self, database):
        async def receive() -> bool:
            async with database.transaction() as tx:
                return await first_time(tx, "gcs", "bucket/name#7", message_id="m", payload={"a": 1})

        assert sorted(await asyncio.gather(*(receive() for _ in range(8)))) == [False] * 7 + [True]

    async def test_a_message_whose_handling_failed_may_come_again(self, database):
        with pytest.raises(ZeroDivisionError):
            async with database.transaction() as tx:
                assert await first_time(tx, "gcs", "k")
                raise ZeroDivisionError
        async with database.transaction() as tx:
            assert await first_time(tx, "gcs", "k")

    async def test_the_same_key_from_another_source_is_another_message(self, database):
        async with database.transaction() as tx:
            assert await first_time(tx, "gcs", "k")
            assert await first_time(tx, "s3", "k")


class TestForgetting:
    async def test_only_what_is_old_is_forgotten(self, database):
        async with database.transaction() as tx:
            await tx.execute(
                "insert into catalog.inbox_events (source, dedup_key, received_at)"
                " select 'gcs', n::text, now() - n * interval '1 day' from generate_series(1, 2500) n"
            )
        assert await inbox.forget(database, timedelta(days=90)) == 2411
        async with database.transaction() as tx:
            left = await fetch_all(tx, "select 1 from catalog.inbox_events")
        assert len(left) == 89
