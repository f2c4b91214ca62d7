"""The breaker on a clock that only moves when told to, over a real Redis."""

import asyncio

import pytest
from tests.support.clock import TurnedClock

from penstock.kernel import error_codes
from penstock.kernel.breaker import Breaker, BreakerPolicy, Circuit, CircuitView
from penstock.kernel.errors import PenstockError
from penstock.kernel.redis import connect

POLICY = BreakerPolicy(failures=3, ratio=0.5, calls=10, window=60, pause=30, probes=2, successes=2, probe_time=20)


class Gone(Exception):
    """A fault of the transport."""


class Refused(Exception):
    """The upstream answered, though not what was hoped."""


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
def make_breaker(redis_client, keys, clock):
    return lambda: Breaker(redis_client, keys, clock=clock, is_simulated=True)


@pytest.fixture
def breaker(make_breaker):
    return make_breaker()


async def call(breaker, failure=None, *, times=1):
    for _ in range(times):
        try:
            async with breaker.guard("m", POLICY, faults=(Gone,)):
                if failure is not None:
                    raise failure
        except (Gone, Refused):
            pass


async def state(breaker):
    return (await breaker.look("m", POLICY)).state


class TestOpening:
    async def test_failures_in_a_row_open_it_for_every_process(self, make_breaker):
        one, other = make_breaker(), make_breaker()
        await call(one, Gone(), times=2)
        assert await state(other) is Circuit.CLOSED
        await call(other, Gone())
        assert await state(one) is Circuit.OPEN
        with pytest.raises(PenstockError) as refused:
            await call(one)
        assert refused.value.code is error_codes.CIRCUIT_OPEN
        assert 30 * 1.05 <= refused.value.details["retry_after"] <= 30 * 1.15

    async def test_a_success_between_starts_the_row_anew(self, breaker):
        for _ in range(3):
            await call(breaker, Gone(), times=2)
            await call(breaker)
        assert await state(breaker) is Circuit.CLOSED

    async def test_a_share_of_failures_in_the_window_opens_it(self, breaker):
        for _ in range(4):
            await call(breaker)
            await call(breaker, Gone())
        assert await state(breaker) is Circuit.CLOSED  # too few calls to tell
        await call(breaker)
        await call(breaker, Gone())
        assert await state(breaker) is Circuit.OPEN

    async def test_an_old_window_does_not_count(self, breaker, clock):
        for _ in range(4):
            await call(breaker)
            await call(breaker, Gone())
        clock.advance(60)
        await call(breaker)
        await call(breaker, Gone())
        assert await state(breaker) is Circuit.CLOSED

    async def test_only_the_chosen_faults_count(self, breaker):
        await call(breaker, Refused(), times=10)
        assert await state(breaker) is Circuit.CLOSED

    async def test_the_caller_may_choose_the_code(self, breaker):
        await call(breaker, Gone(), times=3)
        with pytest.raises(PenstockError) as refused:
            await breaker.admit("m", POLICY, code=error_codes.LLM_CIRCUIT_OPEN)
        assert refused.value.code is error_codes.LLM_CIRCUIT_OPEN

    async def test_keys_do_not_share(self, breaker):
        await call(breaker, Gone(), times=3)
        await breaker.admit("another", POLICY)

    def test_a_policy_that_cannot_work_is_refused(self):
        with pytest.raises(ValueError, match="breaker"):
            BreakerPolicy(failures=0)

    async def test_who_knows_that_no_call_can_succeed_opens_it_at_once(self, make_breaker, clock):
        one, other = make_breaker(), make_breaker()
        await one.trip("m", POLICY)
        assert await state(other) is Circuit.OPEN
        clock.advance(35)
        assert await state(other) is Circuit.HALF_OPEN


class TestHalfOpen:
    @pytest.fixture(autouse=True)
    async def opened(self, breaker, clock):
        await call(breaker, Gone(), times=3)
        clock.advance(35)

    async def test_it_lets_a_few_probes_through_and_closes_after_successes(self, breaker):
        probes = [await breaker.admit("m", POLICY) for _ in range(2)]
        with pytest.raises(PenstockError):
            await breaker.admit("m", POLICY)
        await breaker.record_success(probes[0])
        assert await state(breaker) is Circuit.HALF_OPEN
        await breaker.record_success(probes[1])
        assert await state(breaker) is Circuit.CLOSED

    async def test_one_failure_opens_it_again(self, breaker, clock):
        await call(breaker, Gone())
        assert await state(breaker) is Circuit.OPEN
        clock.advance(35)
        assert await state(breaker) is Circuit.HALF_OPEN

    async def test_lost_probes_do_not_lock_it(self, breaker, clock):
        for _ in range(2):
            await breaker.admit("m", POLICY)
        clock.advance(20)
        await breaker.admit("m", POLICY)

    async def test_a_cancelled_probe_gives_its_turn_back(self, breaker):
        async def hang():
            async with breaker.guard("m", POLICY, faults=(Gone,)):
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(hang()) for _ in range(2)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await state(breaker) is Circuit.HALF_OPEN
        await breaker.admit("m", POLICY)

    async def test_news_from_before_it_opened_is_ignored(self, breaker, clock, keys, redis_client):
        await redis_client.flushall()
        stale = [await breaker.admit("m", POLICY) for _ in range(4)]
        for admission in stale[:3]:
            await breaker.record_failure(admission)
        clock.advance(35)
        await breaker.admit("m", POLICY)
        await breaker.record_failure(stale[3])
        assert await state(breaker) is Circuit.HALF_OPEN


class TestWithoutRedis:
    @pytest.fixture
    async def alone(self, keys, clock, home):
        client = connect(f"unix://{home}/no-such-redis.sock")
        yield Breaker(client, keys, clock=clock)
        await client.aclose()

    async def test_the_process_judges_for_itself(self, alone, clock):
        await call(alone, Gone(), times=3)
        assert await alone.look("m", POLICY) == CircuitView(Circuit.OPEN, 30, is_local=True)
        with pytest.raises(PenstockError):
            await call(alone)
        clock.advance(30)
        await call(alone)
        assert await state(alone) is Circuit.CLOSED

    async def test_one_probe_at_a_time(self, alone, clock):
        await call(alone, Gone(), times=3)
        clock.advance(30)
        await alone.admit("m", POLICY)
        with pytest.raises(PenstockError):
            await alone.admit("m", POLICY)


class TestTheHash:
    async def test_it_expires_when_nobody_comes(self, breaker, redis_client, keys):
        await call(breaker)
        assert 0 < await redis_client.ttl(keys.circuit("m")) <= 7 * 86_400
