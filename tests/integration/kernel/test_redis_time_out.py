"""A Redis that hangs is an error within the time-out, also for a client that has yet to connect."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

from penstock.embedded import EmbeddedRedis
from penstock.kernel.redis import RedisAway, connect


@pytest.fixture
def hung_redis():
    with tempfile.TemporaryDirectory(prefix="penstock-hung-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        server = EmbeddedRedis(Path(name))
        server.start()
        os.kill(server.pid, signal.SIGSTOP)
        yield server
        os.kill(server.pid, signal.SIGCONT)
        server.stop()


async def test_a_hung_server_is_given_up_on(hung_redis):
    client = connect(hung_redis.url, timeout_seconds=0.2)
    started = asyncio.get_running_loop().time()
    with pytest.raises(RedisAway):
        await asyncio.wait_for(client.get("x"), 5)
    assert asyncio.get_running_loop().time() - started < 2
    await client.aclose()
