"""The scheduler role: the relay, and the duties that run once per period over all schedulers."""

import asyncio
from collections.abc import Sequence

from penstock.bootstrap import Parts
from penstock.kernel.scheduler import Duty, Scheduler


async def run_scheduler(parts: Parts, stop: asyncio.Event, *, more_duties: Sequence[Duty] = ()) -> None:
    """Relay and schedule until told to stop."""
    duties = [*parts.duties(), *more_duties]
    scheduler = Scheduler(parts.database, duties, parts.settings.scheduler, owner=parts.worker_id)
    async with asyncio.TaskGroup() as group:
        group.create_task(parts.relay().run(stop))
        group.create_task(scheduler.run(stop))
        group.create_task(parts.heartbeat().run(stop))
