"""A Redis that hangs is an error within the time-out, also for a client that has yet to connect."""

import asyncio
import os
import signal

import pytest

from penstock.kernel.redis import RedisAway, connect


async def test_a_hung_server_is_given_up_on(own_redis):
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
