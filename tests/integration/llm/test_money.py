"""Budgets hold to the micro-dollar, however many ask at once and whoever dies in between."""

import asyncio
import signal
from datetime import timedelta

import pytest
from tests.standins.openai_like import hangs, says
from tests.support import programs
from tests.support.asking import GOOD

from penstock.kernel.budget import Budgets
from penstock.kernel.db import fetch_all
from penstock.kernel.errors import PenstockError
from penstock.llm.tokens import PER_MESSAGE, Price, estimate_tokens


async def outcome(here, **more):
    try:
        return (await here.ask(**more)).usage.cost_micro_usd
    except PenstockError as failure:
        return failure.code.code


class TestFiftyAtOnce:
    async def test_what_is_booked_is_what_was_used(self, beside):
        uses = [(100 + 7 * turn, 1 + turn) for turn in range(50)]
        turns, crowd = iter(uses), asyncio.Event()

        async def answer(asked, writer):
            usage = next(turns)
            if here.model.open_now == 30:
                crowd.set()
            async with asyncio.timeout(20):
                await crowd.wait()
            return await says(GOOD, usage=usage)(asked, writer)

        async with beside(answer) as here:
            costs = await asyncio.gather(*(outcome(here, merchant_id=f"m{turn % 3}") for turn in range(50)))
            budgets, rows = await here.budgets(), await here.calls()
        expected = sum(-(-(prompt * 150_000 + output * 600_000) // 1_000_000) for prompt, output in uses)
        assert sum(costs) == expected
        assert budgets["llm:daily"] == (expected, 0)
        assert sum(spent for scope, (spent, _) in budgets.items() if "merchant" in scope) == expected
        assert sum(row["cost_micro_usd"] for row in rows) == expected
        assert here.model.most_open >= 30, "they did run at once"

    async def test_no_more_is_spent_than_allowed(self, beside):
        async with beside(says(GOOD, usage=(100, 100))) as probe:
            worst = await worst_case(probe)
        allowed = 75 + worst * 20 - 1  # the question before has used 75; room for 19 at once
        open_now = asyncio.Event()

        async def answer(asked, writer):
            if here.model.open_now == 19:
                open_now.set()
            async with asyncio.timeout(20):
                await open_now.wait()
            return await says(GOOD, usage=(100, 100))(asked, writer)

        async with beside(answer, daily_budget_micro_usd=allowed) as here:
            costs = await asyncio.gather(*(outcome(here) for _ in range(50)))
            spent, reserved = (await here.budgets())["llm:daily"]
        done = [cost for cost in costs if isinstance(cost, int)]
        assert set(costs) == {75, "LLM_BUDGET_EXHAUSTED"}
        assert (spent, reserved) == (75 + 75 * len(done), 0)
        assert spent <= allowed
        assert here.model.most_open == 19, "the twentieth could have cost more than is left"


async def worst_case(here):
    """What one question sets aside."""
    await here.ask()
    body = here.model.asked[0].body
    prompt = sum(PER_MESSAGE + estimate_tokens(message["content"]) for message in body["messages"])
    return Price(150_000, 600_000).cost(prompt + estimate_tokens(str(body["response_format"])), 100)


class TestRefusing:
    @pytest.mark.parametrize(
        ("limit", "scope"), [("daily_budget_micro_usd", "llm:daily"), ("merchant_budget_micro_usd", "llm:merchant:m1")]
    )
    async def test_what_does_not_fit_is_not_sent(self, beside, limit, scope):
        async with beside(says(GOOD), **{limit: 10}) as here:
            with pytest.raises(PenstockError) as refusal:
                await here.ask()
        assert refusal.value.code.code == "LLM_BUDGET_EXHAUSTED"
        assert refusal.value.details["scope"] == scope
        assert here.model.asked == []

    async def test_one_merchants_budget_is_not_anothers(self, beside):
        async with beside(says(GOOD, usage=(100, 100)), merchant_budget_micro_usd=250) as here:
            first = [await outcome(here) for _ in range(5)]
            other = await outcome(here, merchant_id="m2")
        assert first[0] == other == 75
        assert first[-1] == "LLM_BUDGET_EXHAUSTED"

    async def test_a_dearer_answer_than_foreseen_is_booked_in_full(self, beside):
        async with beside(says(GOOD, usage=(5000, 9000))) as here:
            await here.ask()
            assert (await here.budgets())["llm:daily"] == (6150, 0)


class TestCancelled:
    async def test_what_was_set_aside_stays_until_it_lapses(self, beside):
        async with beside(hangs()) as here:
            task = asyncio.create_task(here.ask())
            async with asyncio.timeout(20):
                while not here.model.asked:
                    await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            spent, reserved = (await here.budgets())["llm:daily"]
        assert spent == 0
        assert reserved > 0


class TestKilled:
    @pytest.mark.parametrize(("point", "requests"), [("llm.reserved", 0), ("llm.answered", 1)])
    async def test_what_was_set_aside_counts_as_spent_once_it_lapses(
        self, beside, point, requests, database, database_url, redis_server
    ):
        async with beside(says(GOOD)) as here:
            program = programs.start_python(
                "-m", "tests.support.asking", database_url, redis_server.url, here.model.base_url,
                env=programs.environment(PENSTOCK_FAILPOINT=f"{point}=kill"),
            )  # fmt: skip
            assert await asyncio.to_thread(program.wait, 60) == -signal.SIGKILL
            spent, reserved = (await here.budgets())["llm:daily"]
            assert (spent, reserved > 0) == (0, True)
            assert len(here.model.asked) == requests
            async with database.transaction() as tx:
                await tx.execute("update budget_reservations set expires_at = now() - %s", (timedelta(seconds=1),))
                await Budgets().expire(tx)
            budgets = await here.budgets()
            assert budgets["llm:daily"] == budgets["llm:merchant:m1"] == (reserved, 0)
            async with database.transaction() as tx:
                assert await fetch_all(tx, "select * from budget_reservations") == []
