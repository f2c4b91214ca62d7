"""Transactions: success means kept, and a server that is away is told from a fault of ours."""

import asyncio
from contextlib import suppress

import psycopg
import pytest

from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_one
from penstock.kernel.errors import PenstockError


class TestCommitting:
    async def test_a_block_that_passes_over_a_failed_statement_does_not_end_as_if_it_had_committed(self, database):
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            async with database.transaction() as tx:
                await tx.execute("insert into schedule (name) values ('lost')")
                with suppress(psycopg.Error):
                    await tx.execute("select 1 / 0")
        async with database.transaction() as tx:
            assert await fetch_one(tx, "select 1 from schedule") is None

    async def test_a_failed_statement_inside_a_savepoint_costs_only_the_savepoint(self, database):
        async with database.transaction() as tx:
            await tx.execute("insert into schedule (name) values ('kept')")
            with suppress(psycopg.Error):
                async with tx.transaction():
                    await tx.execute("select 1 / 0")
        async with database.transaction() as tx:
            assert await fetch_one(tx, "select 1 from schedule") is not None


class TestPausing:
    async def test_every_connection_is_cut_off_when_its_process_pauses_in_a_transaction(self, database):
        async with database.transaction() as tx:
            row = await fetch_one(tx, "show idle_in_transaction_session_timeout")
        assert row == {"idle_in_transaction_session_timeout": "20s"}


class TestPausingInAPipeline:
    async def test_a_process_that_stops_there_holds_its_locks_for_a_while_only(self, database, database_url):
        """To the server it is not idle: it waits for the rest of the pipeline."""
        paused = Database(database_url, name="paused", size=1, stall_seconds=0.2)
        paused.has_long_transactions = False
        await paused.open()
        with pytest.raises(PenstockError) as ended:
            async with paused.transaction() as tx, tx.pipeline():
                locked = await tx.execute("select pg_advisory_xact_lock(4711)")
                await locked.fetchone()
                await asyncio.sleep(1.5)
        assert ended.value.code is error_codes.DB_UNAVAILABLE
        async with database.transaction() as tx:
            assert await fetch_one(tx, "select pg_try_advisory_xact_lock(4711) as free") == {"free": True}
        await paused.close()


class TestAway:
    async def test_being_cut_off_for_pausing_in_a_transaction_is_the_server_being_away(self, database_url):
        database = Database(database_url, name="paused", size=1)
        await database.open()
        await self._refused(self._pause(database))
        async with database.transaction() as tx:
            assert await fetch_one(tx, "select 1 as one") == {"one": 1}, "the pool hands out no dead connection"
        await database.close()

    async def test_a_standby_is_no_server_to_write_to(self, database):
        await self._refused(self._write_read_only(database))

    async def test_an_exhausted_pool_is_the_server_being_away(self, database_url):
        database = Database(database_url, name="small", size=1, wait_seconds=0.1)
        await database.open()
        async with database.transaction():
            await self._refused(self._ask(database))
        await database.close()

    async def test_a_fault_of_the_statement_stays_what_it_is(self, database):
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with database.transaction() as tx:
                await tx.execute("select 1 / 0")

    async def _refused(self, work) -> None:
        with pytest.raises(PenstockError) as refused:
            await work
        assert refused.value.code is error_codes.DB_UNAVAILABLE

    async def _pause(self, database: Database) -> None:
        async with database.transaction() as tx:
            await tx.execute("set local idle_in_transaction_session_timeout = 50")
            await asyncio.sleep(0.3)
            await tx.execute("select 1")

    async def _write_read_only(self, database: Database) -> None:
        async with database.transaction() as tx:
            await tx.execute("set transaction read only")
            await tx.execute("insert into schedule (name) values ('x')")

    async def _ask(self, database: Database) -> None:
        async with database.transaction() as tx:
            await tx.execute("select 1")
