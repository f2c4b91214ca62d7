"""The scheduler role: the relay, and the duties that run once per period over all schedulers."""

import asyncio

from penstock.bootstrap import Parts
from penstock.kernel.scheduler import Scheduler


async def run_scheduler(parts: Parts, stop: asyncio.Event) -> None:
    """Relay and schedule until told to stop."""
    scheduler = Scheduler(parts.database, parts.duties(), owner=parts.worker_id)
    async with asyncio.TaskGroup() as group:
        group.create_task(parts.relay().run(stop))
        group.create_task(scheduler.run(stop))
        group.create_task(parts.heartbeat().run(stop))
