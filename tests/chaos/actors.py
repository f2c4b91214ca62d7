"""The processes that get killed: the real worker and scheduler roles, with reactions whose effects can be counted."""

import asyncio
import signal
import sys
from datetime import timedelta

from penstock.bootstrap import Parts, load_settings, started
from penstock.kernel.db import Database, Tx
from penstock.kernel.events import StoredEvent
from penstock.kernel.reactions import Reaction
from penstock.kernel.scheduler import Duty, Fence
from penstock.worker import run_scheduler, run_worker


async def take_effect(tx: Tx, event: StoredEvent) -> None:
    """Commits with the delivery's mark: must be seen once per event."""
    await tx.execute(
        "insert into chaos_effects (event_id, entity, step) values (%s, %s, %s)",
        (event.event_id, event.event.entity_id, event.event.payload["step"]),
    )


class Listener:
    """A sink outside the delivery's transaction: must hear every event at least once."""

    name = "listener"

    def __init__(self) -> None:
        self.database: Database | None = None

    def wants(self, event_type: str) -> bool:
        return event_type.startswith("thing.")

    async def send(self, event: StoredEvent) -> None:
        assert self.database is not None
        async with self.database.transaction() as tx:
            await tx.execute(
                "insert into chaos_heard (event_id, entity, step) values (%s, %s, %s)",
                (event.event_id, event.event.entity_id, event.event.payload["step"]),
            )


def duty(parts: Parts) -> Duty:
    """Writes one row per run, fenced; `next_run_at` makes it due all the time."""

    async def write(fence: Fence) -> None:
        async with parts.database.transaction() as tx:
            await fence.hold(tx)
            await tx.execute(
                "insert into chaos_duty (token, owner)"
                " select lease_token, lease_owner from schedule where name = 'chaos'"
            )

    return Duty("chaos", timedelta(milliseconds=500), write)


async def main(role: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listener = Listener()
    reactions = [Reaction("take_effect", "thing.*", take_effect)]
    settings = load_settings()
    async with started(settings, role=role, reactions=reactions, plugins={"listener": listener}) as parts:
        listener.database = parts.database
        if role == "worker":
            await run_worker(parts, stop)
        else:
            await run_scheduler(parts, stop, more_duties=[duty(parts)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
