"""Rows of many callers in one statement: each with its history and its event, or not at all."""

import asyncio
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.entering import Entering, Newcomer, newcomer
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Machine, Step, arrow


class _State(StrEnum):
    NEW = "new"


GUEST = Machine("guest", "guests", "guest_id", _State, [arrow(None, _State.NEW, "door", notice="guest_came")])
_INSERT = (
    "insert into guests (guest_id, name, seat) select guest_id, name, %(seat)s from given"
    " on conflict (name) do nothing returning guest_id, name, status, pg_current_xact_id()::text as xact"
)


@pytest.fixture
async def entering(database: Database):
    async with database.transaction() as tx:
        await tx.execute(
            "create table if not exists guests (guest_id uuid primary key, name text not null unique"
            " check (name <> 'nobody'), seat int, status text not null default 'new')"
        )
        await tx.execute("truncate guests")
    return Entering(database, GUEST, _INSERT, {"seat": 4})


def guest(name: str, *, by: str = "door") -> Newcomer:
    guest_id = uuid4()
    step = Step(str(guest_id), None, _State.NEW, by=by, trigger="rang", operator=name, merchant_id="m",
                payload={"name": name}, topics=("t:1",))  # fmt: skip
    return newcomer(GUEST, step, {"guest_id": guest_id, "name": name, "unknown": 1})


async def written(database: Database, table: str, guest_id: UUID) -> list[dict[str, Any]]:
    query = f"select * from {table} where entity_type = 'guest' and entity_id = %s"
    async with database.transaction() as tx:
        return await fetch_all(tx, query, (str(guest_id),))


async def names(database: Database) -> set[str]:
    async with database.transaction() as tx:
        return {row["name"] for row in await fetch_all(tx, "select name from guests where seat = 4")}


class TestTogether:
    async def test_each_caller_gets_its_own_row_and_many_share_a_commit(self, entering):
        rows = await asyncio.gather(*(entering.enter(guest(f"g{n}")) for n in range(200)))
        assert [row["name"] for row in rows] == [f"g{n}" for n in range(200)]
        assert len({row["xact"] for row in rows}) < 10

    async def test_each_row_has_its_first_state_and_its_event(self, entering, database):
        guests = [guest(f"g{n}") for n in range(10)]
        await asyncio.gather(*(entering.enter(one) for one in guests))
        for n, one in enumerate(guests):
            (history,) = await written(database, "state_transitions", one.row["guest_id"])
            assert [history[name] for name in ("from_status", "to_status", "trigger", "operator")] == [
                None, "new", "rang", f"g{n}",
            ]  # fmt: skip
            (event,) = await written(database, "outbox_events", one.row["guest_id"])
            assert (event["event_type"], event["notice"], event["topics"]) == ("guest.new", "guest_came", ["t:1"])
            assert event["payload"] == {"from": None, "to": "new", "trigger": "rang", "name": f"g{n}"}
            assert (event["merchant_id"], event["order_key"]) == ("m", f"guest:{one.row['guest_id']}")

    async def test_of_ten_alike_one_is_made_and_nothing_is_told_of_the_others(self, entering, database):
        alike = [guest("twin") for _ in range(10)]
        rows = await asyncio.gather(*(entering.enter(one) for one in alike))
        made = [one for one, row in zip(alike, rows, strict=True) if row is not None]
        assert len(made) == 1
        for one in alike:
            told = int(one in made)
            assert len(await written(database, "state_transitions", one.row["guest_id"])) == told
            assert len(await written(database, "outbox_events", one.row["guest_id"])) == told

    async def test_in_a_transaction_of_the_caller_nothing_is_kept_that_it_does_not_keep(self, entering, database):
        with pytest.raises(LookupError):
            async with database.transaction() as tx:
                assert (await entering.enter_in(tx, guest("undone")))["name"] == "undone"
                raise LookupError
        assert await names(database) == set()


class TestFaults:
    @pytest.mark.parametrize("name", ["nobody", "a\0b"])
    async def test_a_fault_hits_only_the_one_that_has_it(self, entering, database, name):
        guests = [guest(name if n == 5 else f"g{n}") for n in range(10)]
        found = await asyncio.gather(*(entering.enter(one) for one in guests), return_exceptions=True)
        assert isinstance(found[5], psycopg.errors.CheckViolation | psycopg.DataError)
        assert [row["name"] for n, row in enumerate(found) if n != 5] == [f"g{n}" for n in range(10) if n != 5]
        assert await names(database) == {f"g{n}" for n in range(10) if n != 5}

    async def test_who_may_not_make_one_is_refused_at_once(self):
        with pytest.raises(PenstockError) as refused:
            guest("thief", by="window")
        assert refused.value.code is error_codes.TRANSITION_DENIED

    async def test_a_group_whose_fate_nobody_knows_is_not_run_again(self, entering, database):
        """The server ends the connection from inside the statement."""
        ends = "case when name = 'g5' and pg_terminate_backend(pg_backend_pid()) then 0 else %(seat)s end"
        deadly = Entering(database, GUEST, _INSERT.replace("%(seat)s", ends), {"seat": 4})
        calls = (deadly.enter(guest(f"g{n}")) for n in range(4, 10))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(each, "code", each) for each in found] == [error_codes.DB_UNAVAILABLE] * 6
        assert await names(database) == set()
