"""Bad policies and signals are refused when they are made; the local gate keeps its distance."""

from datetime import datetime

import pytest

from penstock.kernel.rategate import Outcome, RatePolicy, Signal
from penstock.kernel.rategate.local import LocalBucket
from penstock.kernel.rategate.memory import Memory


class TestPolicies:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"rate": 0},
            {"rate": float("inf")},
            {"rate": float("nan")},
            {"burst": 0},
            {"demote": 1},
            {"min_rate": 0},
            {"cool_down": 0},
            {"quantum": 0},
            {"prefetch": 2, "burst": 1},
            {"quota_margin": 1},
        ],
    )
    def test_a_promise_that_cannot_hold_is_refused(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            RatePolicy(**wrong)

    def test_the_defaults_are_one_a_second(self):
        policy = RatePolicy()
        assert (policy.rate, policy.burst, policy.warmup, policy.demote, policy.min_rate) == (1, 1, 0, 2, 0.1)
        assert policy.quota_daily is policy.quota_hourly is None

    def test_the_margin_is_kept_out_of_a_quota(self):
        assert RatePolicy(quota_margin=0.1).usable(1000) == 900


class TestSignals:
    @pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
    def test_a_retry_after_that_is_no_time_is_refused(self, value):
        with pytest.raises(ValueError, match="retry_after"):
            Signal(Outcome.HTTP_429, retry_after=value)

    def test_a_reset_without_a_zone_is_refused(self):
        with pytest.raises(ValueError, match="time zone"):
            Signal(limit_remaining=1, window_reset=datetime(2026, 1, 1))  # noqa: DTZ001


class TestTheLocalBucket:
    def test_slots_are_apart_and_the_first_is_not_at_once_for_everybody(self):
        buckets = [LocalBucket(2.0, 100.0) for _ in range(50)]
        firsts = [bucket.next_slot(100.0, 0.0) for bucket in buckets]
        assert max(firsts) - min(firsts) > 0.1
        assert all(100.0 <= first <= 100.5 for first in firsts)
        buckets[0].take(firsts[0], 3)
        assert buckets[0].next_slot(100.0, 0.0) == pytest.approx(firsts[0] + 1.5)

    def test_cooling_comes_before_any_slot(self):
        assert LocalBucket(2.0, 100.0).next_slot(100.0, 130.0) == 130.0

    def test_the_rate_is_our_share_or_the_slowest_tenth_of_what_we_got(self):
        policy, memory = RatePolicy(rate=100, burst=10), Memory()
        assert memory.local_rate(policy, 1 / 10) == 10
        for step in range(101):
            memory.observe_grant(1, 1 + step / 4)  # four a second
        assert memory.local_rate(policy, 1 / 10) == pytest.approx(4)

    def test_a_refusal_slows_it_down(self):
        bucket = LocalBucket(8.0, 0.0)
        bucket.note(Signal(Outcome.HTTP_429), RatePolicy(demote=2))
        assert bucket.rate == 4
        bucket.note(Signal(), RatePolicy(demote=2))
        assert bucket.rate == 4
