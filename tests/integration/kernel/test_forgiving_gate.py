"""The gate for calls that come to us: what Redis has forgotten is not held against the callers."""

import pytest
from tests.support.clock import TurnedClock

from penstock.kernel.rategate import Allow, ForgivingGate, RateGate, RatePolicy, Reject

TEN = RatePolicy(rate=10, burst=5)
_AS_OF_ANOTHER_RUN = """
local bucket = cmsgpack.unpack(redis.call('GET', KEYS[1]))
bucket.run = 'another'
redis.call('SET', KEYS[1], cmsgpack.pack(bucket))
"""


@pytest.fixture
def clock():
    return TurnedClock()


async def drain(gate):
    while isinstance(await gate.acquire("k", TEN), Allow):
        pass


class TestForgiving:
    async def test_the_rate_is_kept_all_the_same(self, redis_client, keys, clock):
        gate = ForgivingGate(redis_client, keys, clock=clock, is_simulated=True)
        assert [type(await gate.acquire("k", TEN)) for _ in range(6)] == [Allow] * 5 + [Reject]
        clock.advance(0.1)
        assert [type(await gate.acquire("k", TEN)) for _ in range(2)] == [Allow, Reject]

    @pytest.mark.parametrize(("kind", "granted"), [(ForgivingGate, 5), (RateGate, 0)])
    async def test_after_a_flush_buckets_are_full_and_otherwise_empty(self, redis_client, keys, clock, kind, granted):
        gate = kind(redis_client, keys, clock=clock, is_simulated=True)
        await drain(gate)
        await redis_client.flushall()
        decisions = [await gate.acquire("k", TEN) for _ in range(6)]
        assert sum(isinstance(each, Allow) for each in decisions) == granted

    @pytest.mark.parametrize(("kind", "granted"), [(ForgivingGate, 4), (RateGate, 0)])
    async def test_after_a_restart_what_was_left_is_left_and_otherwise_nothing(
        self, redis_client, keys, clock, kind, granted
    ):
        gate = kind(redis_client, keys, clock=clock, is_simulated=True)
        await gate.acquire("k", TEN)
        await redis_client.eval(_AS_OF_ANOTHER_RUN, 1, keys.rate("k"))
        decisions = [await gate.acquire("k", TEN) for _ in range(6)]
        assert sum(isinstance(each, Allow) for each in decisions) == granted
