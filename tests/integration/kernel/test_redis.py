"""What counts as Redis being away: one that hangs, and one that takes no writes."""

import asyncio
import os
import signal

import pytest

from penstock.kernel.breaker import Breaker, BreakerPolicy
from penstock.kernel.rategate import RateGate, RatePolicy
from penstock.kernel.redis import RedisAway, RedisTrouble, connect
from penstock.kernel.streams import StreamEvent, StreamPublisher, StreamSettings


class TestRedisAway:
    async def test_a_hung_server_is_given_up_on_even_by_a_client_that_has_yet_to_connect(self, own_redis):
        os.kill(own_redis.pid, signal.SIGSTOP)
        client = connect(own_redis.url, timeout_seconds=0.2)
        started = asyncio.get_running_loop().time()
        try:
            with pytest.raises(RedisAway):
                await asyncio.wait_for(client.get("x"), 5)
            assert asyncio.get_running_loop().time() - started < 2
        finally:
            os.kill(own_redis.pid, signal.SIGCONT)
            await client.aclose()

    async def test_a_full_server_is_away_and_nobody_is_blamed_for_it(self, redis_client, keys):
        await redis_client.config_set("maxmemory", "1")
        try:
            with pytest.raises(RedisAway):
                await redis_client.set("x", "1")
            with pytest.raises(RedisAway):
                event = StreamEvent(1, ("job:1",), "job_done", {})
                await StreamPublisher(redis_client, keys, StreamSettings()).publish([event])
            granted = await RateGate(redis_client, keys).permit("key", RatePolicy(rate=100))
            assert granted.is_local
            await Breaker(redis_client, keys).admit("key", BreakerPolicy())
        finally:
            await redis_client.config_set("maxmemory", "0")

    async def test_a_connection_that_breaks_inside_a_transaction_of_the_queue(self, own_redis):
        client = connect(own_redis.url)
        async with client.pipeline() as pipeline:
            await pipeline.watch("x")
            own_redis.kill()
            with pytest.raises(RedisTrouble):
                await pipeline.exists("x")
        await client.aclose()
