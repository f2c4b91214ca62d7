"""The stage with sources on it: what is planned, executors that fetch it, and what came of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from penstock.harvest.desk import HarvestDesk, check
from penstock.harvest.executing import sweep_tasks
from penstock.harvest.planning import Outcome, Trigger
from penstock.harvest.registry.apply import apply
from penstock.harvest.registry.document import SourceDocument
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.db import Database
from penstock.kernel.rategate import RateGate
from penstock.kernel.redis import Keys, connect
from tests.chaos.stage import Stage
from tests.support.nursery import Child

T = TypeVar("T")
LIVE = "('QUEUED', 'DISPATCHED', 'EXECUTING')"


class HarvestStage(Stage):
    """Leases are long: on a busy machine nobody but the dead may lose a task. `bury` ends theirs at once."""

    module = "tests.chaos.harvest_actors"
    clock: Clock = SystemClock()

    def environment(self, name: str) -> dict[str, str]:
        return {
            **super().environment(name),
            "PENSTOCK_HARVEST_LEASE_SECONDS": "120",
            "PENSTOCK_HARVEST_POLL_SECONDS": "0.05",
            "PENSTOCK_HARVEST_PER_EXECUTOR": "3",
            "PENSTOCK_HARVEST_TOTAL": "32",
        }

    def executor(self, name: str, *sources: str, **environment: str) -> Child:
        """The role, for these sources only or for all."""
        only = {"HARVEST_SOURCES": ",".join(sources)} if sources else {}
        return self.start(name, **only | environment)

    def apply(self, source: SourceDocument) -> None:
        async def write(desk: HarvestDesk) -> None:
            async with desk.database.transaction() as tx:
                await apply(tx, source, "chaos", check=check)

        self._at_a_desk(write)

    def plan(self, trigger: Trigger) -> Outcome:
        return self._at_a_desk(lambda desk: desk.planner.plan(trigger))

    def bury(self, *sources: str, attempts: int = 100) -> None:
        """The leases of these sources are over; the scheduler's duty takes the tasks away from who held them."""
        self.change(
            "update ing_task set leased_until = now() - interval '1 second' where leased_until is not null"
            " and provenance_code = any(%s)",
            list(sources),
        )
        self._at_a_desk(lambda desk: sweep_tasks(desk.database, most_attempts=attempts))

    def change(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.postgres.url) as connection:
            connection.execute(statement, values)

    def _at_a_desk(self, work: Callable[[HarvestDesk], Awaitable[T]]) -> T:
        async def sit_down() -> T:
            database = Database(self.postgres.url, name="planner", size=2)
            await database.open()
            redis = connect(self.redis.url)
            desk = HarvestDesk(database, RateGate(redis, Keys("chaos:")), HarvestSettings(), self.clock)
            try:
                return await work(desk)
            finally:
                await desk.close()
                await redis.aclose()
                await database.close()

        return asyncio.run(sit_down())

    def wait_until_drained(self, seconds: float, *sources: str) -> None:
        named = " and provenance_code = any(%(sources)s)" if sources else ""
        waiting = f"select status_code, count(*) from ing_task where status_code in {LIVE}{named} group by 1"
        self.wait_for(
            lambda: not self.query(waiting, {"sources": list(sources)}), seconds, f"queue empty: {sources or 'all'}"
        )
