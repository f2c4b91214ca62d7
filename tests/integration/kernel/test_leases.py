"""Leases: each row is held by one at a time, and only the latest holder can write."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.kernel import error_codes, leases
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.leases import Leasable

ROWS = Leasable("leased_things", "id", ready="status = 'QUEUED'", order="priority, id")
LONG = timedelta(minutes=5)
PAST = timedelta(seconds=-1)


@pytest.fixture(autouse=True)
async def _table(database: Database):
    async with database.transaction() as tx:
        await tx.execute(
            "create table if not exists leased_things (id bigint generated always as identity primary key,"
            " priority int not null default 0, status text not null default 'QUEUED', result text,"
            " lease_owner text, leased_until timestamptz, lease_token bigint not null default 0,"
            " lease_count int not null default 0)"
        )


async def add(database: Database, count: int) -> None:
    async with database.transaction() as tx:
        await tx.execute("insert into leased_things (priority) select n %% 7 from generate_series(1, %s) n", (count,))


async def claim(database: Database, owner: str = "a", ttl: timedelta = LONG, limit: int = 1):
    async with database.transaction() as tx:
        return await leases.claim(tx, ROWS, owner=owner, ttl=ttl, limit=limit)


async def expire(database: Database) -> int:
    async with database.transaction() as tx:
        return await leases.expire(tx, ROWS)


class TestClaiming:
    async def test_many_claimers_share_all_rows_and_no_row_twice(self, database):
        await add(database, 300)

        async def take(owner: str) -> list[int]:
            got: list[int] = []
            while held := await claim(database, owner, limit=7):
                got += [lease.key for lease in held]
            return got

        shares = await asyncio.gather(*(take(f"claimer-{n}") for n in range(12)))
        taken = [key for share in shares for key in share]
        assert len(taken) == 300
        assert len(set(taken)) == 300

    async def test_rows_come_in_order(self, database):
        await add(database, 30)
        priorities = [(await claim(database))[0].row["priority"] for _ in range(30)]
        assert priorities == sorted(priorities)

    async def test_a_held_row_cannot_be_claimed_until_it_is_given_back(self, database):
        await add(database, 1)
        held = await claim(database)
        assert await claim(database, "b") == []
        async with database.transaction() as tx:
            await leases.give_back(tx, ROWS, held)
        assert len(await claim(database, "b")) == 1


class TestFencing:
    async def test_a_holder_whose_time_ran_out_cannot_settle_after_another_claim(self, database):
        await add(database, 1)
        [old] = await claim(database, "paused", ttl=PAST)
        assert await expire(database) == 1
        [new] = await claim(database, "next")
        assert new.token > old.token
        async with database.transaction() as tx:
            with pytest.raises(PenstockError) as refused:
                await leases.settle(tx, ROWS, old, {"status": "DONE", "result": "late"})
        assert refused.value.code is error_codes.LEASE_LOST
        async with database.transaction() as tx:
            await leases.settle(tx, ROWS, new, {"status": "DONE", "result": "right"})
            [row] = await fetch_all(tx, "select * from leased_things")
        assert (row["result"], row["lease_owner"], row["leased_until"]) == ("right", None, None)

    async def test_the_fence_keeps_takers_out_until_the_writer_commits(self, database):
        await add(database, 1)
        [held] = await claim(database, ttl=timedelta(seconds=0.2))
        async with database.transaction() as tx:
            await leases.assert_held(tx, ROWS, held)
            await asyncio.sleep(0.3)
            assert await expire(database) == 0, "an expiring row that its holder is writing under is passed over"
        assert await expire(database) == 1
        async with database.transaction() as tx:
            with pytest.raises(PenstockError):
                await leases.assert_held(tx, ROWS, held)

    async def test_the_fence_refuses_an_old_holder_while_the_next_one_holds(self, database):
        await add(database, 1)
        [old] = await claim(database, "paused", ttl=PAST)
        await expire(database)
        [new] = await claim(database, "next")
        async with database.transaction() as tx:
            await leases.assert_held(tx, ROWS, new)
            with pytest.raises(PenstockError) as refused:
                await leases.assert_held(tx, ROWS, old)
        assert refused.value.code is error_codes.LEASE_LOST

    async def test_renewal_tells_which_leases_are_still_ours(self, database):
        await add(database, 2)
        kept, lost = await claim(database, ttl=PAST, limit=2)
        async with database.transaction() as tx:
            await leases.give_back(tx, ROWS, [lost])
        await claim(database, "thief")
        async with database.transaction() as tx:
            assert await leases.renew(tx, ROWS, [kept, lost], ttl=LONG) == [kept.key]
        assert await expire(database) == 0

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(steps=st.lists(st.sampled_from(["claim", "lapse", "settle_old", "settle_new", "renew_old"]), max_size=15))
    def test_whatever_happens_only_the_latest_claim_can_write(self, database, loop, steps):
        loop.run_until_complete(self._walk(database, steps))

    async def _walk(self, database: Database, steps: list[str]) -> None:
        async with database.transaction() as tx:
            await tx.execute("truncate leased_things")
        await add(database, 1)
        claims = []
        holder = None
        for what in steps:
            if what == "claim":
                got = await claim(database)
                assert bool(got) == (holder is None)
                if got:
                    holder = got[0]
                    claims.append(holder)
            elif what == "lapse":
                async with database.transaction() as tx:
                    await tx.execute(
                        "update leased_things set leased_until = now() - interval '1 s' where leased_until is not null"
                    )
                await expire(database)
                holder = None
            elif claims:
                lease = claims[0] if what.endswith("old") else claims[-1]
                async with database.transaction() as tx:
                    if what.startswith("renew"):
                        assert bool(await leases.renew(tx, ROWS, [lease], ttl=LONG)) == (lease is holder)
                    elif lease is holder:
                        await leases.settle(tx, ROWS, lease, {"result": "x"})
                        holder = None
                    else:
                        with pytest.raises(PenstockError):
                            await leases.settle(tx, ROWS, lease, {"result": "x"})
