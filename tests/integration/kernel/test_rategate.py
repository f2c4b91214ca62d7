"""The gate on a clock that only moves when told to: line, cooling, AIMD, quotas, leases."""

from datetime import timedelta

import pytest
from tests.support.clock import TurnedClock

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import (
    Allow,
    Outcome,
    RateGate,
    RatePolicy,
    Reason,
    Reject,
    Signal,
    WaitUntil,
)

TEN = RatePolicy(rate=10, burst=5)


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
def make_gate(redis_client, keys, clock):
    return lambda: RateGate(redis_client, keys, clock=clock, is_simulated=True)


@pytest.fixture
def gate(make_gate):
    return make_gate()


async def drain(gate, key="k", policy=TEN):
    while isinstance(await gate.acquire(key, policy), Allow):
        pass


async def rate_of(gate, key="k", policy=TEN):
    return (await gate.estimate(key, policy, 0)).rate


class TestTheBucket:
    async def test_a_new_key_starts_full_and_then_keeps_the_rate(self, gate, clock):
        assert [type(await gate.acquire("k", TEN)) for _ in range(6)] == [Allow] * 5 + [Reject]
        clock.advance(0.1)
        assert [type(await gate.acquire("k", TEN)) for _ in range(2)] == [Allow, Reject]

    async def test_it_never_stores_more_than_the_burst(self, gate, clock):
        await gate.acquire("k", TEN)
        clock.advance(3600)
        assert [type(await gate.acquire("k", TEN)) for _ in range(6)] == [Allow] * 5 + [Reject]

    async def test_a_cost_takes_that_many(self, gate):
        assert isinstance(await gate.acquire("k", TEN, cost=4), Allow)
        refused = await gate.acquire("k", TEN, cost=3)
        assert isinstance(refused, Reject)
        assert refused.reason is Reason.OVER_DEADLINE
        assert refused.retry_after == pytest.approx(0.2)

    @pytest.mark.parametrize("cost", [0, -1, 6])
    async def test_a_cost_that_can_never_be_granted_is_refused(self, gate, cost):
        with pytest.raises(ValueError, match="cost"):
            await gate.acquire("k", TEN, cost=cost)

    async def test_keys_do_not_share(self, gate):
        await drain(gate, "a")
        assert isinstance(await gate.acquire("b", TEN), Allow)

    async def test_warming_up_starts_slowly_and_without_a_burst(self, gate, clock):
        policy = RatePolicy(rate=10, burst=5, warmup=10, min_rate=1)
        assert isinstance(await gate.acquire("k", policy), Reject)
        assert await rate_of(gate, policy=policy) == 1
        clock.advance(5)
        assert await rate_of(gate, policy=policy) == pytest.approx(5.5)
        clock.advance(5)
        assert await rate_of(gate, policy=policy) == 10

    async def test_its_key_expires_when_nobody_comes(self, gate, redis_client, keys):
        await gate.acquire("k", TEN)
        assert 0 < await redis_client.ttl(keys.rate("k")) <= 2 * 86_400
        assert await redis_client.ttl(keys.rate_origin()) > 0


class TestTheLine:
    async def test_waiters_are_one_slot_apart_in_their_order(self, gate):
        policy = RatePolicy(rate=10, burst=1)
        await drain(gate, policy=policy)
        waits = [await gate.acquire("k", policy, deadline=60) for _ in range(5)]
        assert [round(w.seconds, 3) for w in waits] == [0.1, 0.2, 0.3, 0.4, 0.5]

    async def test_a_place_is_honoured_at_its_moment_and_not_before(self, gate, clock):
        policy = RatePolicy(rate=10, burst=1)
        await drain(gate, policy=policy)
        first, second = [await gate.acquire("k", policy, deadline=60) for _ in range(2)]
        clock.advance(0.1)
        early = await gate.redeem("k", policy, second, deadline=60)
        assert isinstance(early, WaitUntil)
        assert early.seconds == pytest.approx(0.1, abs=1e-5)
        assert isinstance(await gate.redeem("k", policy, first), Allow)
        clock.advance(0.1)
        assert isinstance(await gate.redeem("k", policy, early), Allow)

    async def test_a_newcomer_cannot_jump_the_line(self, gate, clock):
        await drain(gate)
        waiting = [await gate.acquire("k", TEN, deadline=60) for _ in range(3)]
        clock.advance(0.3)
        assert isinstance(await gate.acquire("k", TEN), Reject)
        assert [type(await gate.redeem("k", TEN, w)) for w in waiting] == [Allow] * 3

    async def test_a_wait_beyond_the_deadline_is_refused_with_the_time_it_would_take(self, gate):
        await drain(gate)
        refused = await gate.acquire("k", TEN, cost=5, deadline=0.4)
        assert refused == Reject(Reason.OVER_DEADLINE, pytest.approx(0.5))

    async def test_dead_waiters_hold_nobody_up_for_long(self, gate, clock):
        await drain(gate)
        for _ in range(100):
            await gate.acquire("k", TEN, deadline=60)  # and never come back
        clock.advance(0.5)
        assert isinstance(await gate.acquire("k", TEN), Allow)  # the bucket is full: the line sleeps
        clock.advance(13)
        assert [type(await gate.acquire("k", TEN)) for _ in range(5)] == [Allow] * 5

    async def test_a_cut_rate_moves_everybody_back_and_keeps_them_apart(self, gate, clock):
        policy = RatePolicy(rate=10, burst=1, cool_down=1000)
        await drain(gate, policy=policy)
        waits = [await gate.acquire("k", policy, deadline=60) for _ in range(4)]
        await gate.feedback("k", policy, Signal(Outcome.SERVER_ERROR))
        clock.advance(0.4)
        again = [await gate.redeem("k", policy, w, deadline=60) for w in waits]
        assert [type(decision) for decision in again] == [Allow] + [WaitUntil] * 3
        assert [round(w.seconds, 2) for w in again[1:]] == [0.2, 0.4, 0.6]

    async def test_permit_waits_as_long_as_it_must(self, gate, clock):
        granted = [await gate.permit("k", TEN) for _ in range(25)]
        assert clock.monotonic() == pytest.approx(2.0, rel=0.2)
        assert granted[0].waited == 0
        assert granted[-1].waited > 0.05

    async def test_permit_says_why_it_gave_up(self, gate):
        await drain(gate)
        with pytest.raises(PenstockError) as refused:
            await gate.permit("k", TEN, deadline=0.05)
        assert refused.value.code is error_codes.RATE_LIMITED
        assert refused.value.details["reason"] == "over_deadline"

    async def test_waits_are_jittered_as_far_as_the_bucket_can_store(self, gate):
        await drain(gate)
        waits = [(await gate.acquire("k", TEN, deadline=600)).seconds for _ in range(40)]
        late = [wait - (place + 1) / 10 for place, wait in enumerate(waits)]
        assert all(0 < lateness <= 0.4 * 0.15 + 1e-5 for lateness in late)
        assert len({round(lateness, 5) for lateness in late}) > 10


class TestFairness:
    async def test_a_task_holds_no_more_places_than_its_quantum(self, gate, clock):
        policy = RatePolicy(rate=10, burst=1, quantum=3)
        await drain(gate, policy=policy)
        big = [await gate.acquire("k", policy, deadline=60, task="big") for _ in range(8)]
        small = await gate.acquire("k", policy, deadline=60, task="small")
        assert [w.ticket.place is not None for w in big] == [True] * 3 + [False] * 5
        assert small.seconds == pytest.approx(0.4, abs=1e-5)

    async def test_while_others_wait_a_task_gets_at_most_its_quantum_in_a_row(self, gate, clock):
        policy = RatePolicy(rate=10, burst=1, quantum=3)
        await drain(gate, policy=policy)
        order = await self._serve(gate, clock, policy, {"big": 30, "small": 6})
        until_small_is_done = order[: len(order) - order[::-1].index("small")]
        streaks = "".join("b" if task == "big" else " " for task in until_small_is_done).split()
        assert order.count("big") == 30
        assert max(map(len, streaks)) <= 3

    async def _serve(self, gate, clock, policy, wanted):
        """Each task keeps up to six requests waiting until it has had all it wants."""
        waiting, order, asked = [], [], dict.fromkeys(wanted, 0)
        while any(count > order.count(task) for task, count in wanted.items()):
            for task, count in wanted.items():
                while asked[task] < count and sum(t == task for t, _ in waiting) < 6:
                    waiting.append((task, await gate.acquire("k", policy, deadline=600, task=task)))
                    asked[task] += 1
            waiting.sort(key=lambda entry: entry[1].at)
            task, due = waiting.pop(0)
            clock.advance(max(0, (due.at - clock.now()).total_seconds()))
            decision = await gate.redeem("k", policy, due, deadline=600)
            order.append(task) if isinstance(decision, Allow) else waiting.append((task, decision))
        return order


class TestAdapting:
    @pytest.mark.parametrize("outcome", [Outcome.HTTP_429, Outcome.SERVER_ERROR])
    async def test_trouble_divides_the_rate_down_to_the_least(self, gate, clock, outcome):
        policy = RatePolicy(rate=10, burst=5, demote=4, min_rate=0.5, cool_down=1000)
        rates = []
        for _ in range(4):
            await gate.feedback("k", policy, Signal(outcome))
            rates.append(await rate_of(gate, policy=policy))
            clock.advance(1)
        assert rates == [2.5, 0.625, 0.5, 0.5]

    async def test_a_volley_counts_once(self, gate):
        for _ in range(16):
            await gate.feedback("k", TEN, Signal(Outcome.HTTP_429))
        assert await rate_of(gate) == 5

    async def test_the_rate_grows_back_step_by_step_and_no_further(self, gate, clock):
        policy = RatePolicy(rate=10, burst=5, cool_down=10, raise_by=2)
        await gate.feedback("k", policy, Signal(Outcome.HTTP_429))
        rates = []
        for _ in range(5):
            rates.append(await rate_of(gate, policy=policy))
            clock.advance(10)
        assert rates == [5, 7, 9, 10, 10]

    async def test_a_429_empties_the_bucket(self, gate):
        await gate.acquire("k", TEN)
        await gate.feedback("k", TEN, Signal(Outcome.HTTP_429))
        assert isinstance(await gate.acquire("k", TEN), Reject)

    async def test_retry_after_closes_the_gate_for_every_process(self, make_gate, clock):
        told, other = make_gate(), make_gate()
        await told.feedback("k", TEN, Signal(Outcome.HTTP_429, retry_after=30))
        for gate in (told, other):
            refused = await gate.acquire("k", TEN, deadline=29)
            assert refused.reason is Reason.COOLING_DOWN
            assert 30 * 1.05 <= refused.retry_after <= 30 * 1.15 + 0.2  # and the wait for one token
        clock.advance(30)
        assert isinstance(await other.acquire("k", TEN), Reject)  # jitter is never to the early side
        clock.advance(30 * 0.15 + 0.2)
        assert isinstance(await other.acquire("k", TEN), Allow)

    async def test_retry_after_holds_on_a_success_too(self, gate, clock):
        await gate.feedback("k", TEN, Signal(retry_after=5))
        assert (await gate.acquire("k", TEN)).reason is Reason.COOLING_DOWN
        assert await rate_of(gate) == 10

    async def test_retry_after_reaches_those_who_already_hold_a_place(self, make_gate, clock):
        waiter, told = make_gate(), make_gate()
        await drain(waiter)
        place = await waiter.acquire("k", TEN, deadline=60)
        await told.feedback("k", TEN, Signal(Outcome.HTTP_429, retry_after=10))
        clock.advance(place.seconds)
        moved = await waiter.redeem("k", TEN, place, deadline=60)
        assert moved.seconds > 10 - place.seconds

    async def test_after_the_cooling_they_come_one_by_one(self, gate, clock):
        policy = RatePolicy(rate=10, burst=5, cool_down=1000)
        await gate.acquire("k", policy)
        await gate.feedback("k", policy, Signal(Outcome.HTTP_429, retry_after=10))
        waits = [(await gate.acquire("k", policy, deadline=60)).seconds for _ in range(5)]
        assert all(wait > 10.5 + 0.2 * (place + 1) for place, wait in enumerate(waits))

    async def test_a_longer_cooling_is_not_cut_short_by_another(self, gate):
        await gate.feedback("k", TEN, Signal(Outcome.HTTP_429, retry_after=100))
        await gate.feedback("k", TEN, Signal(Outcome.HTTP_429, retry_after=1))
        assert (await gate.acquire("k", TEN)).retry_after > 100

    async def test_cooling_outlives_a_flush(self, gate, redis_client):
        await gate.feedback("k", TEN, Signal(Outcome.HTTP_429, retry_after=100))
        await redis_client.flushall()
        waiting = await gate.acquire("k", TEN, deadline=200)
        assert waiting.seconds > 100


class TestQuotas:
    async def test_a_quota_stops_short_by_its_margin_until_its_window_ends(self, gate, clock):
        policy = RatePolicy(rate=1000, burst=100, quota_hourly=20, quota_margin=0.1)
        clock.advance(600)
        decisions = [await gate.acquire("k", policy) for _ in range(19)]
        assert [type(decision) for decision in decisions] == [Allow] * 18 + [Reject]
        assert decisions[-1] == Reject(Reason.QUOTA_EXHAUSTED, pytest.approx(3000))
        clock.advance(3000)
        assert isinstance(await gate.acquire("k", policy), Allow)

    async def test_who_can_wait_for_the_window_is_told_when(self, gate, clock):
        policy = RatePolicy(rate=1000, burst=100, quota_hourly=1, quota_margin=0)
        await gate.acquire("k", policy)
        waiting = await gate.acquire("k", policy, deadline=3600)
        assert 3600 * 1.05 <= waiting.seconds <= 3600 * 1.15

    async def test_the_day_holds_over_the_hours(self, gate, clock):
        policy = RatePolicy(rate=1000, burst=100, quota_hourly=5, quota_daily=8, quota_margin=0)
        granted = 0
        for _ in range(3):
            granted += sum([isinstance(await gate.acquire("k", policy), Allow) for _ in range(10)])
            clock.advance(3600)
        assert granted == 8

    async def test_the_providers_figures_replace_ours(self, gate, clock):
        policy = RatePolicy(rate=1000, burst=100, quota_hourly=50, quota_margin=0)
        await gate.acquire("k", policy)
        reset = clock.now() + timedelta(seconds=90)
        await gate.feedback("k", policy, Signal(limit_remaining=3, window_reset=reset))
        clock.advance(1)
        decisions = [await gate.acquire("k", policy) for _ in range(4)]
        assert [type(decision) for decision in decisions] == [Allow] * 3 + [Reject]
        assert decisions[-1] == Reject(Reason.QUOTA_EXHAUSTED, pytest.approx(89))
        clock.advance(90)
        assert isinstance(await gate.acquire("k", policy), Allow)

    async def test_a_late_answer_does_not_raise_what_is_left(self, gate, clock):
        policy = RatePolicy(rate=1000, burst=100)
        reset = clock.now() + timedelta(seconds=90)
        for remaining in (2, 7):
            await gate.feedback("k", policy, Signal(limit_remaining=remaining, window_reset=reset))
        assert (await gate.estimate("k", policy, 60)).permits == 2

    async def test_what_was_used_outlives_a_flush(self, gate, redis_client):
        policy = RatePolicy(rate=1000, burst=100, quota_daily=100, quota_margin=0)
        for _ in range(60):
            await gate.acquire("k", policy)
        await redis_client.flushall()
        assert (await gate.estimate("k", policy, 3600)).permits == 40


class TestEstimating:
    async def test_it_tells_what_is_left_of_each_quota(self, gate):
        policy = RatePolicy(rate=10, burst=5, quota_hourly=100, quota_daily=1000, quota_margin=0.1)
        await gate.acquire("k", policy, cost=3)
        assert (await gate.estimate("k", policy, 60)).quotas == {"hour": 87, "day": 897}
        assert (await gate.estimate("other", TEN, 60)).quotas == {}

    async def test_it_counts_what_is_there_and_what_will_come_less_what_is_promised(self, gate):
        assert (await gate.estimate("k", TEN, 10)).permits == 105
        await drain(gate)
        for _ in range(4):
            await gate.acquire("k", TEN, deadline=60)
        found = await gate.estimate("k", TEN, 10, latency=0.5)
        assert (found.permits, found.concurrency, found.rate) == (96, 5, 10)

    async def test_cooling_is_taken_off(self, gate):
        await gate.feedback("k", TEN, Signal(retry_after=100))
        found = await gate.estimate("k", TEN, 60)
        assert (found.permits, found.concurrency) == (0, 0)
        assert found.opens_after > 100


class TestPrefetching:
    LEASED = RatePolicy(rate=10, burst=40, prefetch=20, lease_ttl=2)

    async def test_one_call_brings_home_many(self, gate, redis_client):
        await gate.acquire("k", self.LEASED)
        before = (await redis_client.info("commandstats"))["cmdstat_evalsha"]["calls"]
        assert [type(await gate.acquire("k", self.LEASED)) for _ in range(19)] == [Allow] * 19
        assert (await redis_client.info("commandstats"))["cmdstat_evalsha"]["calls"] == before

    async def test_unused_tokens_go_back(self, make_gate):
        first, second = make_gate(), make_gate()
        await first.acquire("k", self.LEASED)
        assert (await second.estimate("k", self.LEASED, 0)).permits == 20
        await first.give_back({"k": self.LEASED})
        assert (await second.estimate("k", self.LEASED, 0)).permits == 39

    async def test_forgotten_tokens_lapse_for_their_holder_and_make_room(self, make_gate, clock):
        first, second = make_gate(), make_gate()
        await first.acquire("k", self.LEASED)
        clock.advance(1.999)
        assert (await second.estimate("k", self.LEASED, 0)).permits == 40 - 19  # their room is kept
        clock.advance(60)
        assert (await second.estimate("k", self.LEASED, 0)).permits == 40
        await drain(second, policy=self.LEASED)
        assert isinstance(await first.acquire("k", self.LEASED), Reject)

    async def test_a_lease_that_ends_frees_room_only_for_what_comes_after(self, gate, clock):
        policy = RatePolicy(rate=250, burst=7, prefetch=4, lease_ttl=2)
        await gate.acquire("k", policy)
        clock.advance(1)
        decisions = [await gate.acquire("k", policy, cost=cost) for cost in (3, 3, 1, 1)]
        assert [type(decision) for decision in decisions] == [Allow, Allow, Allow, Reject]
