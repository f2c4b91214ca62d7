"""Statements of many callers share a commit; a fault stays with the one that has it."""

import asyncio

import psycopg
import pytest

from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.groupcommit import GroupCommit, or_each_alone

_INSERT = "insert into sharing (id) values (%(id)s) returning id, pg_current_xact_id()::text as xact"


@pytest.fixture
async def group(database: Database):
    async with database.transaction() as tx:
        await tx.execute("create table if not exists sharing (id int primary key)")
        await tx.execute("truncate sharing")
    return GroupCommit(database)


async def ids(database: Database) -> list[int]:
    async with database.transaction() as tx:
        return [row["id"] for row in await fetch_all(tx, "select id from sharing order by id")]


class TestSharing:
    async def test_each_caller_gets_its_own_row(self, group):
        rows = await asyncio.gather(*(group.run(_INSERT, {"id": n}) for n in range(200)))
        assert [row["id"] for row in rows] == list(range(200))

    async def test_those_that_wait_share_transactions(self, group):
        rows = await asyncio.gather(*(group.run(_INSERT, {"id": n}) for n in range(200)))
        assert len({row["xact"] for row in rows}) < 10

    async def test_a_statement_without_rows_gives_none(self, group):
        assert await group.run("select 1 where %(yes)s", {"yes": False}) is None

    async def test_what_was_answered_is_committed(self, group, database):
        await group.run(_INSERT, {"id": 7})
        assert await ids(database) == [7]


class TestOrder:
    async def test_statements_run_in_the_order_of_what_they_lock_and_answers_come_as_asked(self, group, database):
        sorting = GroupCommit(database, order=lambda statement: f"{statement[1]['id']:03}")
        asked = [n * 37 % 64 for n in range(64)]
        rows = await asyncio.gather(*(sorting.run(_INSERT, {"id": n}) for n in asked))
        assert [row["id"] for row in rows] == asked
        async with database.transaction() as tx:
            made = await fetch_all(tx, "select id from sharing order by ctid")
        assert [row["id"] for row in made] == sorted(asked)


class TestFaults:
    async def test_a_fault_hits_only_the_one_that_has_it(self, group, database):
        await group.run(_INSERT, {"id": 5})
        found = await asyncio.gather(*(group.run(_INSERT, {"id": n}) for n in range(10)), return_exceptions=True)
        assert isinstance(found[5], psycopg.errors.UniqueViolation)
        assert all(isinstance(row, dict) for n, row in enumerate(found) if n != 5)
        assert await ids(database) == list(range(10))

    @pytest.mark.parametrize("unsendable", ["a\0b", "a\ud800b"])
    async def test_one_that_cannot_even_be_sent_hits_only_itself(self, group, database, unsendable):
        """The statements before it have been sent already: they must not be run twice."""
        query = "insert into sharing (id) select %(id)s where %(text)s <> '' returning id"
        calls = (group.run(query, {"id": n, "text": unsendable if n == 5 else "a"}) for n in range(10))
        found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)
        assert isinstance(found[5], psycopg.DataError | UnicodeError)
        assert [row for n, row in enumerate(found) if n != 5] == [{"id": n} for n in range(10) if n != 5]
        assert await ids(database) == [n for n in range(10) if n != 5]

    async def test_a_group_whose_fate_nobody_knows_is_not_run_again(self, group, database):
        end = group.run("select pg_terminate_backend(pg_backend_pid())", {})
        calls = (group.run(_INSERT, {"id": 1}), end, group.run(_INSERT, {"id": 2}))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(failure, "code", failure) for failure in found] == [error_codes.DB_UNAVAILABLE] * 3
        assert await ids(database) == []

    async def test_a_caller_that_gave_up_does_not_disturb_the_others(self, group, database):
        first = asyncio.create_task(group.run(_INSERT, {"id": 1}))
        gone = asyncio.create_task(group.run(_INSERT, {"id": 2}))
        last = asyncio.create_task(group.run(_INSERT, {"id": 3}))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await first)["id"] == 1
        assert (await last)["id"] == 3
        assert (await group.run(_INSERT, {"id": 4}))["id"] == 4


class TestADatabaseThatGoesAwayAfterAFault:
    async def test_those_behind_are_told_at_once(self):
        tried = []

        async def run(group):
            if len(group) > 1:
                raise ValueError("one of them cannot be sent")
            tried.append(group[0])
            if group[0] == "b":
                raise PenstockError(error_codes.DB_UNAVAILABLE)
            return [{"id": group[0]}]

        first, *others = await or_each_alone(run, ["a", "b", "c", "d"])
        assert first == {"id": "a"}
        assert [other.code for other in others] == [error_codes.DB_UNAVAILABLE] * 3
        assert tried == ["a", "b"]
