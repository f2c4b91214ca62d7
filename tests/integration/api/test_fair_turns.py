"""A merchant with many requests at once has two of them worked on at a time while others are there."""

import asyncio

import pytest
from tests.support.edge import bearer

from penstock.kernel.turns import STRANGERS

JOBS = "/api/v1/jobs"


async def held(turns, owner):
    """Both turns that an owner has beside others."""
    made = [turns.of(owner) for _ in range(2)]
    for each in made:
        await each.take()
    return made


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "status"),
        [("/api/v1/workers", 403), ("/api/v1/nothing", 404), (f"{JOBS}?impersonate_merchant_id=m-2", 400)],
    )
    async def test_a_refusal_takes_a_turn_too(self, app, client, path, status):
        turns = app.state.parts.turns
        async with turns.of("m-modest"):
            mine = await held(turns, "m-greedy")
            waiting = asyncio.create_task(client.get(path, headers=bearer(merchant="m-greedy")))
            assert (await client.get(JOBS, headers=bearer(merchant="m-modest"))).status_code == 200
            assert not waiting.done()
            mine[0].give()
            assert (await asyncio.wait_for(waiting, 5)).status_code == status
            mine[1].give()

    async def test_strangers_are_together_like_one_merchant(self, app, client):
        turns = app.state.parts.turns
        theirs = await held(turns, STRANGERS)
        asked = [
            client.get("/health/live"),
            client.get(JOBS),
            client.get(JOBS, headers={"Authorization": "Bearer no"}),
            client.post("/_/gcs/callback", json={}),
        ]
        waiting = [asyncio.create_task(each) for each in asked]
        assert (await client.get(JOBS, headers=bearer(merchant="m-modest"))).status_code == 200
        assert not any(each.done() for each in waiting)
        for each in theirs:
            each.give()
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200, 401, 401, 401]


class TestTurns:
    async def test_a_request_waits_for_its_own_merchants_turns_and_for_nobody_elses(self, app, client):
        turns = app.state.parts.turns
        held = [turns.of("m-greedy") for _ in range(2)]
        async with turns.of("m-modest"):
            for each in held:
                await each.take()
            waiting = asyncio.create_task(client.get(JOBS, headers=bearer(merchant="m-greedy")))
            assert (await client.get(JOBS, headers=bearer(merchant="m-modest"))).status_code == 200
            assert not waiting.done()
            held[0].give()
            assert (await asyncio.wait_for(waiting, 5)).status_code == 200
            held[1].give()

    async def test_a_turn_is_given_back_when_the_request_is_over(self, app, client):
        turns = app.state.parts.turns
        async with turns.of("m-modest"):
            for _ in range(5):
                assert (await client.get(JOBS, headers=bearer(merchant="m-greedy"))).status_code == 200
                assert (await client.get(f"{JOBS}/nothing", headers=bearer(merchant="m-greedy"))).status_code >= 400
            async with asyncio.timeout(0.02), turns.of("m-greedy"), turns.of("m-greedy"):
                pass
