"""The promise itself: no window of T seconds holds more than burst + rate * T, whatever happens when."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.clock import TurnedClock

from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import Allow, GateSettings, Outcome, RateGate, RatePolicy, Signal, WaitUntil
from penstock.kernel.redis import Keys, connect

_names = itertools.count()
_SPAWNED = """
import asyncio, sys, time
from penstock.kernel.rategate import RateGate, RatePolicy
from penstock.kernel.redis import Keys, connect

async def main(url, rate, burst, prefetch, seconds):
    client = connect(url)
    gate, policy = RateGate(client, Keys("spawned")), RatePolicy(rate=rate, burst=burst, prefetch=prefetch)
    ends = time.time() + seconds
    async def caller():
        while time.time() < ends:
            allow = await gate.permit("k", policy)
            print(f"{allow.at or time.time():.6f}")
    await asyncio.gather(*[caller() for _ in range(2)])
    await client.aclose()

asyncio.run(main(sys.argv[1], *map(float, sys.argv[2:4]), int(sys.argv[4]), float(sys.argv[5])))
"""


def worst_excess(grants: list[tuple[float, int]], rate: float, burst: int) -> float:
    """By how many tokens the worst window breaks the promise; not above zero when it is kept."""
    worst, floor = -float(burst), 0.0
    spent = 0
    for at, cost in sorted(grants):
        # tokens in [start, at] - rate * (at - start) - burst, for the best start so far
        floor = min(floor, spent - rate * at) if spent else -rate * at
        spent += cost
        worst = max(worst, spent - rate * at - floor - burst)
    return worst


class TestMeasuring:
    def test_the_measure_finds_a_broken_promise(self):
        assert worst_excess([(100.0, 1), (101.0, 1), (102.0, 1)], rate=1, burst=1) == pytest.approx(0)
        assert worst_excess([(100.0, 1), (109.0, 1), (109.5, 1)], rate=1, burst=1) == pytest.approx(0.5)
        assert worst_excess([(100.0, 3), (200.0, 3)], rate=1, burst=4) == pytest.approx(-1)


_policies = st.builds(
    lambda rate, burst, prefetch, quantum, ttl: RatePolicy(
        rate=rate, burst=burst, prefetch=min(prefetch, burst), quantum=quantum, lease_ttl=ttl, cool_down=1, volley=0
    ),
    st.sampled_from([0.5, 3, 10, 250]),
    st.integers(1, 12),
    st.sampled_from([1, 1, 4, 12]),
    st.integers(1, 4),
    st.sampled_from([0.2, 2.0]),
)
_steps = st.lists(
    st.tuples(
        st.sampled_from(["ask"] * 6 + ["redeem"] * 5 + ["trouble", "retry", "flush", "give_back"]),
        st.integers(0, 2),  # which process
        st.integers(1, 4),  # cost
        st.sampled_from([0, 0, 0, 1, 5, 30, 100, 400, 1500, 5000]),  # milliseconds until the next step
        st.sampled_from([None, "a", "b"]),
    ),
    min_size=5,
    max_size=80,
)


class TestAnySequence:
    @settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(policy=_policies, steps=_steps)
    async def test_grants_stay_within_burst_and_rate_in_every_window(self, redis_client, keys, policy, steps):
        await redis_client.flushall()
        clock, key = TurnedClock(), f"p{next(_names)}"
        gates = [RateGate(redis_client, keys, clock=clock, is_simulated=True) for _ in range(3)]
        for gate in gates:
            await gate.estimate(key, policy, 0)
        grants: list[tuple[float, int]] = []
        waiting: list[tuple[RateGate, int, WaitUntil]] = []
        for what, who, cost, pause, task in steps:
            gate, amount = gates[who], min(cost, policy.burst)
            if what == "ask":
                decision = await gate.acquire(key, policy, cost=amount, deadline=20, task=task)
            elif what == "redeem" and waiting:
                gate, amount, place = waiting.pop(0)
                decision = await gate.redeem(key, policy, place, deadline=20)
            else:
                await self._disturb(what, gate, key, policy)
                decision = None
            if isinstance(decision, Allow):
                grants.append((clock.monotonic(), amount))
            elif isinstance(decision, WaitUntil):
                waiting.append((gate, amount, decision))
            clock.advance(pause / 1000)
        assert worst_excess(grants, policy.rate, policy.burst) <= 1e-6

    async def _disturb(self, what, gate, key, policy):
        if what == "trouble":
            await gate.feedback(key, policy, Signal(Outcome.SERVER_ERROR))
        elif what == "retry":
            await gate.feedback(key, policy, Signal(Outcome.HTTP_429, retry_after=0.3))
        elif what == "flush":
            await gate._redis.flushall()
        elif what == "give_back":
            await gate.give_back({key: policy})


class TestManyProcesses:
    @pytest.mark.parametrize("prefetch", [1, 5])
    def test_four_processes_share_one_rate(self, redis_server, redis_client, prefetch):
        rate, burst, seconds = 100, 10, 2
        grants = self._run(redis_server.url, rate, burst, prefetch, seconds)
        # A prefetched permit is stamped by its caller, some time after it was granted.
        slack = 0.01 if prefetch == 1 else 0.1 * rate
        assert worst_excess([(at, 1) for at in grants], rate, burst) <= slack
        expected = burst + rate * (max(grants) - min(grants))
        assert expected * 0.95 <= len(grants) <= expected + 1

    def _run(self, url, rate, burst, prefetch, seconds):
        command = [sys.executable, "-c", _SPAWNED, url, *map(str, (rate, burst, prefetch, seconds))]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) for _ in range(4)]
        outputs = [process.communicate(timeout=60)[0] for process in running]
        assert [process.returncode for process in running] == [0] * 4
        return [float(line) for output in outputs for line in output.split()]


@pytest.fixture
async def meet(own_redis):
    """Clients of that Redis, closed in the end."""
    made = []

    def connected(**options):
        made.append(connect(own_redis.url, **options))
        return made[-1]

    yield connected
    for client in made:
        await client.aclose()


class TestRedisLost:
    async def test_killed_in_the_middle_and_back_again(self, own_redis, meet):
        """Eight processes' worth of gates; Redis dies for two seconds with SIGKILL."""
        policy, share = RatePolicy(rate=40, burst=10), GateSettings(local_share=1 / 8, retry_seconds=0.4)
        clients = [meet(timeout_seconds=0.5) for _ in range(8)]
        gates = [RateGate(client, Keys("lost"), settings=share) for client in clients]
        grants: list[tuple[float, bool]] = []
        started = time.monotonic()

        async def caller(gate: RateGate) -> None:
            while time.monotonic() - started < 5:
                granted = await gate.permit("k", policy, deadline=30)
                grants.append((time.monotonic() - started, granted.is_local))

        async def trouble() -> tuple[float, float]:
            await asyncio.sleep(1)
            own_redis.kill()
            killed = time.monotonic() - started
            await asyncio.sleep(1.5)
            await asyncio.to_thread(own_redis.start)
            return killed, time.monotonic() - started

        killed, back = (await asyncio.gather(trouble(), *[caller(gate) for gate in gates for _ in range(3)]))[0]
        away = [at for at, _ in grants if killed + 0.1 < at < back]
        assert 0 < len(away) <= 1 + policy.rate * (back - killed)  # the shares together are the rate
        assert all(is_local for at, is_local in grants if killed + 0.1 < at < back)
        assert not [at for at, is_local in grants if is_local and at > back + 1]
        assert sum(not is_local for at, is_local in grants if at > back) > 0.5 * policy.rate * (5 - back - 1)
        assert sum(back < at < back + 0.5 for at, _ in grants) <= 0.5 * policy.rate + 2  # nobody stampedes
        assert worst_excess([(at, 1) for at, _ in grants], policy.rate, policy.burst) <= 0.1 * policy.rate

    async def test_a_restarted_redis_gives_no_fresh_burst(self, own_redis, meet):
        policy = RatePolicy(rate=0.5, burst=20)
        client = meet()
        gate = RateGate(client, Keys("lost"))
        for _ in range(15):
            assert isinstance(await gate.acquire("k", policy), Allow)
        await asyncio.to_thread(own_redis.stop)
        await asyncio.to_thread(own_redis.start)
        newcomer = RateGate(client, Keys("lost"))  # knows nothing of what was before
        refused = await newcomer.acquire("k", policy)
        assert not newcomer.is_local
        assert refused.retry_after == pytest.approx(1.5 + 2, abs=0.2)

    async def test_a_flushed_redis_gives_no_fresh_burst_even_for_other_keys(self, redis_client, keys):
        policy, clock = RatePolicy(rate=1, burst=20), TurnedClock()
        old, new = [RateGate(redis_client, keys, clock=clock, is_simulated=True) for _ in range(2)]
        await old.acquire("k", policy)
        await redis_client.flushall()
        assert not isinstance(await old.acquire("k", policy), Allow)
        assert not isinstance(await new.acquire("other", policy), Allow)  # its buckets may have been in use too
        clock.advance(7)
        assert (await new.estimate("third", policy, 0)).permits == 7

    async def test_a_redis_that_hangs_is_given_up_on_and_not_asked_by_everybody(self, own_redis, meet):
        policy = RatePolicy(rate=200, burst=10)
        client = meet(timeout_seconds=5)
        patience = GateSettings(local_share=1, call_seconds=0.3, retry_seconds=30)
        gate = RateGate(client, Keys("lost"), settings=patience)
        await gate.acquire("k", policy)
        os.kill(own_redis.pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            granted = await asyncio.gather(*[gate.permit("k", policy) for _ in range(20)])
            taken = time.monotonic() - started
        finally:
            os.kill(own_redis.pid, signal.SIGCONT)
        assert gate.is_local
        assert all(allow.is_local for allow in granted)
        assert taken < 2.5

    async def test_alone_it_still_cools_down_and_tells_redis_later(self, own_redis, meet):
        policy = RatePolicy(rate=50, burst=5)
        client = meet(timeout_seconds=0.5)
        gate = RateGate(client, Keys("lost"), settings=GateSettings(retry_seconds=0.05))
        await gate.acquire("k", policy)
        own_redis.kill()
        await gate.feedback("k", policy, Signal(Outcome.HTTP_429, retry_after=60))
        with pytest.raises(PenstockError, match="cooling_down"):
            await gate.permit("k", policy, deadline=1)
        await asyncio.to_thread(own_redis.start)
        await asyncio.sleep(0.1)
        await gate.estimate("k", policy, 1)
        other = RateGate(client, Keys("lost"))
        assert (await other.estimate("k", policy, 1)).opens_after > 55
