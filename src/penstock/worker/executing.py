"""The executor role: tasks of harvests, as many at once as the settings and the sources allow."""

import asyncio

from penstock.bootstrap import Parts


async def run_executor(parts: Parts, stop: asyncio.Event) -> None:
    """Execute until told to stop; what is in hand is finished or given back."""
    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(parts.heartbeat().run(done))  # alive until it holds nothing any more
        await parts.harvest.executor(parts.worker_id).run(stop)
        done.set()
