"""Budgets hold to the unit, in every scope, whoever spends at once."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Rollback
from tests.support.clock import TurnedClock

from penstock.kernel import error_codes
from penstock.kernel.budget import Budgets
from penstock.kernel.db import fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

SCOPES = {"llm": 100, "llm:merchant:m": 60}


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
def budgets(clock):
    return Budgets(clock)


async def book(database, scope):
    async with database.transaction() as tx:
        row = await fetch_one(tx, "select spent, reserved from budgets where scope = %s", (scope,))
    return row["spent"], row["reserved"]


class TestSpending:
    async def test_reserve_then_settle_books_what_was_really_spent(self, database, budgets):
        async with database.transaction() as tx:
            held = await budgets.reserve(tx, 40, SCOPES)
            assert await budgets.remaining(tx, "llm") == 60
            assert await budgets.remaining(tx, "llm:merchant:m") == 20
        async with database.transaction() as tx:
            assert await budgets.settle(tx, held, 25)
        assert await book(database, "llm") == await book(database, "llm:merchant:m") == (25, 0)

    async def test_what_was_not_spent_is_released(self, database, budgets):
        async with database.transaction() as tx:
            held = await budgets.reserve(tx, 60, SCOPES)
            assert await budgets.release(tx, held)
            assert await budgets.remaining(tx, "llm:merchant:m") == 60

    async def test_a_scope_that_is_short_refuses_for_all(self, database, budgets):
        async with database.transaction() as tx:
            with pytest.raises(PenstockError) as refused:
                await budgets.reserve(tx, 61, SCOPES)
            assert await budgets.remaining(tx, "llm") == 100
        assert refused.value.code is error_codes.BUDGET_EXHAUSTED
        assert refused.value.details == {"scope": "llm:merchant:m", "remaining": 60, "wanted": 61}

    async def test_the_caller_may_choose_the_code(self, database, budgets):
        with pytest.raises(PenstockError) as refused:
            async with database.transaction() as tx:
                await budgets.reserve(tx, 101, {"llm": 100}, code=error_codes.LLM_BUDGET_EXHAUSTED)
        assert refused.value.code is error_codes.LLM_BUDGET_EXHAUSTED

    async def test_a_dearer_call_is_booked_in_full_and_stops_the_next(self, database, budgets):
        async with database.transaction() as tx:
            held = await budgets.reserve(tx, 90, {"llm": 100})
            await budgets.settle(tx, held, 130)
            assert await budgets.remaining(tx, "llm") == 0
            with pytest.raises(PenstockError):
                await budgets.reserve(tx, 1, {"llm": 100})

    async def test_settling_twice_books_once(self, database, budgets):
        async with database.transaction() as tx:
            held = await budgets.reserve(tx, 10, SCOPES)
            assert await budgets.settle(tx, held, 10)
            assert not await budgets.settle(tx, held, 10)
        assert await book(database, "llm") == (10, 0)

    async def test_a_rolled_back_caller_has_reserved_nothing(self, database, budgets):
        async with database.transaction() as tx:
            await budgets.reserve(tx, 10, SCOPES)
            raise Rollback
        async with database.transaction() as tx:
            assert await budgets.remaining(tx, "llm") is None

    async def test_a_raised_allowance_counts_at_once(self, database, budgets):
        async with database.transaction() as tx:
            await budgets.reserve(tx, 100, {"llm": 100})
            await budgets.reserve(tx, 50, {"llm": 150})
            assert await budgets.remaining(tx, "llm") == 0

    async def test_a_new_day_is_a_new_budget_and_the_old_call_settles_on_its_own(self, database, budgets, clock):
        async with database.transaction() as tx:
            held = await budgets.reserve(tx, 100, {"llm": 100})
            clock.advance(86_400)
            await budgets.reserve(tx, 100, {"llm": 100})
            await budgets.settle(tx, held, 70)
            rows = await fetch_all(tx, "select spent, reserved from budgets order by day")
        assert [(row["spent"], row["reserved"]) for row in rows] == [(70, 0), (0, 100)]

    @pytest.mark.parametrize(("amount", "scopes"), [(-1, SCOPES), (1, {}), (1, {"llm": -5})])
    async def test_nonsense_is_refused(self, database, budgets, amount, scopes):
        async with database.transaction() as tx:
            with pytest.raises(ValueError, match="cannot reserve"):
                await budgets.reserve(tx, amount, scopes)


class TestTheDead:
    async def test_an_expired_reservation_counts_as_spent(self, database, budgets, clock):
        async with database.transaction() as tx:
            held = await budgets.reserve(tx, 30, SCOPES, ttl=timedelta(minutes=5))
            await budgets.reserve(tx, 1, SCOPES, ttl=timedelta(minutes=50))
        clock.advance(301)
        async with database.transaction() as tx:
            assert await budgets.expire(tx) == 2
            assert not await budgets.settle(tx, held, 5)
        assert await book(database, "llm") == await book(database, "llm:merchant:m") == (30, 1)


class TestTogether:
    async def test_fifty_callers_hold_it_to_the_unit_without_deadlock(self, database, budgets):
        """Each merchant's scopes come in an order of their own, which is where deadlocks would come from."""

        async def spend(number: int) -> bool:
            scopes = {"llm": 100, f"llm:merchant:{number % 3}": 40, "a": 1000}
            if number % 2:
                scopes = dict(reversed(scopes.items()))
            try:
                async with database.transaction() as tx:
                    held = await budgets.reserve(tx, 3, scopes)
            except PenstockError:
                return False
            async with database.transaction() as tx:
                return await budgets.settle(tx, held, 3)

        outcomes = await asyncio.gather(*[spend(number) for number in range(50)])
        assert sum(outcomes) == 33  # 99 of 100: one more would not fit
        assert await book(database, "llm") == (99, 0)
        merchants = [await book(database, f"llm:merchant:{number}") for number in range(3)]
        assert sum(spent for spent, _ in merchants) == 99
        assert all(spent <= 40 for spent, _ in merchants)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        steps=st.lists(
            st.tuples(
                st.sampled_from(["reserve", "reserve", "settle", "release", "expire"]),
                st.integers(0, 50),
                st.sets(st.sampled_from(["x", "y", "z"]), min_size=1),
            ),
            max_size=25,
        )
    )
    async def test_any_sequence_keeps_the_books(self, database, steps):
        clock = TurnedClock()
        budgets, held = Budgets(clock), []
        allowed = {"x": 60, "y": 100, "z": 150}
        async with database.transaction() as tx:
            await tx.execute("truncate budgets, budget_reservations")
            for what, amount, names in steps:
                if what == "reserve":
                    scopes, ttl = {name: allowed[name] for name in names}, timedelta(minutes=3)
                    with suppress(PenstockError):
                        held.append(await budgets.reserve(tx, amount, scopes, ttl=ttl))
                elif what == "expire":
                    clock.advance(100)
                    await budgets.expire(tx)
                elif held:
                    reservation = held.pop(amount % len(held))
                    await budgets.settle(tx, reservation, 0 if what == "release" else reservation.amount // 2)
                clock.advance(60)
            rows = await fetch_all(
                tx,
                "select b.*, (select coalesce(sum(amount), 0) from budget_reservations r"
                " where (r.scope, r.day) = (b.scope, b.day)) as held from budgets b",
            )
        assert all(row["spent"] + row["reserved"] <= row["allowed"] for row in rows)
        assert all(row["reserved"] == row["held"] for row in rows)
