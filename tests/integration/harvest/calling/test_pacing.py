"""The promise to a provider, kept over the real gate."""

import asyncio
from datetime import timedelta

import pytest
from tests.integration.harvest.calling.conftest import spec_for
from tests.support.clock import TurnedClock
from tests.support.misbehaving import misbehaving, said

from penstock.harvest.calling.answers import Hints
from penstock.harvest.calling.pacing import Pacer, policy_of, rate_key
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.spec import Operation
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import Outcome, RateGate

HERE = "https://api.example.org"


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
def pacer(redis_client, keys, clock):
    gate = RateGate(redis_client, keys, clock=clock, is_simulated=True)
    return Pacer(gate, HarvestSettings(permit_seconds=timedelta(seconds=5)), clock)


async def permits(pacer, spec, operation=Operation.HARVEST):
    return await pacer.permit(pacer.lane(spec, spec), operation, "task")


async def refusal(pacer, spec, operation):
    with pytest.raises(PenstockError) as caught:
        await permits(pacer, spec, operation)
    assert caught.value.code is error_codes.RATE_LIMITED
    return caught.value.details["reason"]


class TestKeys:
    def test_each_endpoint_has_its_own_unless_they_share(self):
        detail = {"rateLimit": {"qps": 3}}
        spec = spec_for(HERE, detail=detail, detailEndpoint="items")
        assert rate_key(spec, spec) == "example/works"
        assert rate_key(spec, spec.detail) == "example/items"
        shared = spec_for(HERE, rateLimit={"sharedByEndpoints": True})
        assert rate_key(shared, shared) == "example"

    def test_a_provider_that_counts_by_credential_gets_a_key_for_each(self):
        auth = {"type": "BEARER", "credentialRef": "plus"}
        spec = spec_for(HERE, auth=auth, rateLimit={"byCredential": True})
        assert rate_key(spec, spec) == "example/works#plus"

    def test_the_rate_is_the_paced_share_and_a_cost_fits_into_the_bucket(self):
        limit = spec_for(HERE, rateLimit={"qps": 10, "pace": 0.9, "burst": 1, "cost": 3, "minRate": 50}).rate_limit
        policy = policy_of(limit)
        assert (policy.rate, policy.burst, policy.min_rate) == (9, 3, 9)


class TestHeaders:
    async def test_a_smaller_rate_in_headers_holds_for_the_next_calls(self, pacer):
        spec = spec_for(HERE, rateLimit={"qps": 50, "pace": 1, "burst": 1})
        lane = pacer.lane(spec, spec)
        await pacer.feedback(lane, Outcome.OK, Hints(rate=5))
        assert pacer.lane(spec, spec).policy.rate == 5
        await pacer.feedback(lane, Outcome.OK, Hints(rate=500))
        assert pacer.lane(spec, spec).policy.rate == 50

    async def test_a_source_can_say_that_its_headers_mean_nothing(self, pacer):
        spec = spec_for(HERE, rateLimit={"qps": 50, "pace": 1, "headerAdaptive": False})
        await pacer.feedback(pacer.lane(spec, spec), Outcome.OK, Hints(rate=5, remaining=0, reset=pacer._clock.now()))
        assert pacer.lane(spec, spec).policy.rate == 50
        await permits(pacer, spec)

    async def test_a_used_up_quota_of_the_provider_closes_until_its_reset(self, pacer, clock):
        spec = spec_for(HERE)
        reset = clock.now() + timedelta(minutes=30)
        await pacer.feedback(pacer.lane(spec, spec), Outcome.OK, Hints(remaining=0, limit=100, reset=reset))
        assert await refusal(pacer, spec, Operation.HARVEST) == "quota_exhausted"
        clock.advance(31 * 60)
        await permits(pacer, spec)

    async def test_a_window_of_seconds_is_waited_out(self, pacer, clock):
        spec = spec_for(HERE)
        reset = clock.now() + timedelta(seconds=2)
        await pacer.feedback(pacer.lane(spec, spec), Outcome.OK, Hints(remaining=0, limit=5, reset=reset))
        assert (await permits(pacer, spec)).waited >= 2

    async def test_too_many_requests_halve_the_rate(self, pacer):
        spec = spec_for(HERE, rateLimit={"qps": 10, "pace": 1, "minRate": 0.1})
        await permits(pacer, spec)
        await pacer.feedback(pacer.lane(spec, spec), Outcome.HTTP_429, Hints())
        assert (await pacer.estimate(spec, timedelta(seconds=10))).rate == 5


class TestReserves:
    async def test_the_last_of_a_quota_is_for_the_harvest(self, pacer, clock):
        spec = spec_for(HERE, rateLimit={"quotaDaily": 10, "quotaMargin": 0, "quotaReserve": 0.3})
        refused = {}
        for used in range(10):
            await permits(pacer, spec)
            clock.advance(1.1)  # estimates are kept for a second
            for operation in (Operation.UPDATE, Operation.BACKFILL):
                left = await pacer.quota_left(pacer.lane(spec, spec))
                reserve = 0.3 if operation is Operation.UPDATE else 0.6
                if left < reserve and operation not in refused:
                    assert await refusal(pacer, spec, operation) == "QUOTA_RESERVED"
                    refused[operation] = used + 1
        assert refused == {Operation.BACKFILL: 5, Operation.UPDATE: 8}
        assert await refusal(pacer, spec, Operation.HARVEST) == "quota_exhausted"

    async def test_a_quota_that_only_headers_tell_of_is_reserved_too(self, pacer, clock):
        spec = spec_for(HERE)
        reset = clock.now() + timedelta(hours=3)
        await pacer.feedback(pacer.lane(spec, spec), Outcome.OK, Hints(remaining=30, limit=100, reset=reset))
        assert await refusal(pacer, spec, Operation.BACKFILL) == "QUOTA_RESERVED"
        await permits(pacer, spec, Operation.UPDATE)
        await permits(pacer, spec, Operation.HARVEST)

    async def test_without_a_quota_everybody_may(self, pacer):
        await permits(pacer, spec_for(HERE), Operation.BACKFILL)


class TestEstimates:
    async def test_a_planner_learns_what_a_horizon_bears(self, pacer):
        spec = spec_for(HERE, rateLimit={"qps": 2, "pace": 1, "burst": 1})
        assert (await pacer.estimate(spec, timedelta(seconds=100))).permits == 201

    async def test_an_estimate_is_good_for_a_second(self, pacer, clock):
        spec = spec_for(HERE, rateLimit={"qps": 2, "pace": 1, "burst": 1})
        first = await pacer.estimate(spec, timedelta(seconds=100))
        await permits(pacer, spec)
        assert await pacer.estimate(spec, timedelta(seconds=100)) is first
        clock.advance(1.1)
        assert await pacer.estimate(spec, timedelta(seconds=100)) is not first


class TestManyCallers:
    async def test_a_turn_that_is_too_far_away_gives_the_task_back(self, pacer):
        spec = spec_for(HERE, rateLimit={"qps": 0.01, "pace": 1, "burst": 1, "minRate": 0.01})
        await permits(pacer, spec)
        assert await refusal(pacer, spec, Operation.HARVEST) == "over_deadline"

    async def test_connections_at_once_are_limited(self, calling):
        async def slow(asked, writer):
            await asyncio.sleep(0.02)
            return said()

        async with misbehaving(slow) as source:
            spec = spec_for(source.address, rateLimit={"concurrency": 2})
            await asyncio.gather(*(calling.fetch(spec) for _ in range(8)))
        assert source.most_open == 2
        assert len(source.asked) == 8
