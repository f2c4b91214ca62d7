"""A merchant with many requests at once has two of them worked on at a time while others are there."""

import asyncio

from tests.support.edge import bearer

JOBS = "/api/v1/jobs"


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
