"""A task that waits for Redis or for a connection of the pool ends when it is cancelled, whatever the moment."""

import asyncio

import pytest

from penstock.kernel.db import Database
from penstock.kernel.redis import connect


async def forgets(begin, most_steps):
    """The moments, in steps of the event loop, in which a cancellation of the task was forgotten."""
    forgotten = []
    for steps in range(most_steps):
        task = asyncio.create_task(begin())
        for _ in range(steps):
            await asyncio.sleep(0)
        was_running = task.cancel()
        await asyncio.wait({task}, timeout=5)
        if was_running and not task.cancelled():
            forgotten.append(steps)
    return forgotten


class TestCancellation:
    @pytest.mark.parametrize("command", ["PING", "INFO"])
    async def test_a_command_to_redis(self, redis_server, command):
        client = connect(redis_server.url)
        try:
            await client.ping()
            assert await forgets(lambda: client.execute_command(command), 40) == []
            assert await client.ping()  # the connections that are left are in order
        finally:
            await client.aclose()

    async def test_waiting_for_a_connection(self, database_url):
        database = Database(database_url, name="test", size=1)
        await database.open()
        held = asyncio.Event()

        async def hold():
            async with database.statement():
                held.set()
                await asyncio.sleep(0)

        async def wait():
            held.clear()
            holder = asyncio.create_task(hold())
            try:
                await held.wait()
                async with database.statement():
                    pass
                await asyncio.sleep(3600)
            finally:
                await holder

        try:
            assert await forgets(wait, 60) == []
            async with asyncio.timeout(5), database.statement() as tx:
                await tx.execute("select 1")
        finally:
            await database.close()
