"""What the sweep shows of the queue and of the cursors: also of those that stand still."""

from datetime import UTC, datetime, timedelta

from prometheus_client import REGISTRY
from tests.support.harvest_queue import claimer, queue_tasks

from penstock.harvest.cursors import Closing, CursorName, Lineage, Scope, close_span, open_cursor
from penstock.harvest.executing import sweep_tasks
from penstock.harvest.slices import Span
from penstock.harvest.spec import CursorType, Operation
from penstock.kernel.db import Database


def gauge(name: str, source: str, operation: str = "HARVEST") -> float | None:
    labels = {"source": source, "endpoint": "works", "operation": operation}
    return REGISTRY.get_sample_value(f"penstock_harvest_{name}", labels)


class TestTheQueue:
    async def test_tasks_that_wait_are_counted_and_an_empty_queue_is_shown_as_empty(self, database: Database):
        await queue_tasks(database, "shown", 2)
        await sweep_tasks(database, most_attempts=8)
        assert gauge("tasks_queued", "shown") == 2
        mine = claimer(database)
        while await mine.claim():
            pass
        await sweep_tasks(database, most_attempts=8)
        assert gauge("tasks_queued", "shown") == 0


class TestTheLag:
    async def test_it_is_the_age_of_the_whole_prefix_not_of_the_newest_window(self, database: Database):
        now = datetime.now(UTC)
        name = CursorName("lagging", "works", Operation.HARVEST, "updated_at", CursorType.TIME, Scope.EXPR, "works")
        hours = [now - timedelta(hours=hour) for hour in (4, 3, 2, 1)]
        async with database.transaction() as tx:
            await open_cursor(tx, name, hours[0])
            for number, span in enumerate((Span(hours[0], hours[1]), Span(hours[2], hours[3]))):
                await close_span(tx, name, span, Closing(Lineage(task_id=number)))
        await sweep_tasks(database, most_attempts=8)
        assert 3 * 3600 <= gauge("cursor_lag_seconds", "lagging") < 3 * 3600 + 600

    async def test_a_backfill_has_none(self, database: Database):
        name = CursorName("lagging", "works", Operation.BACKFILL, "updated_at", CursorType.TIME, Scope.CUSTOM, "b")
        async with database.transaction() as tx:
            await open_cursor(tx, name, datetime.now(UTC))
        await sweep_tasks(database, most_attempts=8)
        assert gauge("cursor_lag_seconds", "lagging", "BACKFILL") is None
