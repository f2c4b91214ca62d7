"""The source file that docs/first-source.md explains, run as it stands there: it works, and what happens is counted."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY
from tests.standins import overrides, serve

from penstock.harvest.desk import HarvestDesk, check
from penstock.harvest.planning import Trigger
from penstock.harvest.registry.apply import apply
from penstock.harvest.registry.document import read_source
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.rategate import RateGate
from penstock.kernel.telemetry import Masker, TelemetrySettings, configure_tracing

PAGE = Path(__file__).parents[4] / "docs" / "first-source.md"
WHERE = {"source": "mylib", "endpoint": "items", "operation": "HARVEST"}


def counted(name: str, **more: str) -> float:
    return REGISTRY.get_sample_value(f"penstock_harvest_{name}", WHERE | more) or 0


def _counts() -> list[float]:
    """Items, batches, runs."""
    return [
        counted("items_total", action="insert"),
        counted("batch_seconds_count"),
        counted("runs_total", outcome="SUCCEEDED"),
    ]


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    tracing = configure_tracing("executor", "e1", TelemetrySettings(), masker=Masker(), exporter=exporter)
    yield lambda: (tracing.close(), exporter.get_finished_spans())[1]
    tracing.close()


async def harvest(desk: HarvestDesk, **run: dict):
    """Apply, plan and run the page's file against its stand-in."""
    written = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    async with desk.database.transaction() as tx:
        await apply(tx, read_source(written.encode(), "mylib.yaml"), "me", check=check)
    async with serve("generic", records=3000, days=10) as api:
        there = overrides("generic", api.url) | {"rateLimit": {"qps": 500, "burst": 50}}
        there["http"] |= run.get("http", {})
        planned = await desk.planner.plan(Trigger("mylib", run=there))
        await asyncio.wait_for(desk.executor("e1").drain(asyncio.Event()), 60)
    return planned


@pytest.fixture
async def desk(database: Database, redis_client, keys):
    made = HarvestDesk(database, RateGate(redis_client, keys), HarvestSettings(), SystemClock())
    yield made
    await made.close()


class TestTheFirstSource:
    async def test_it_is_harvested_and_every_batch_is_counted_and_traced(self, database: Database, desk, spans):
        was = _counts()
        planned = await harvest(desk)
        async with database.transaction() as tx:
            [stored] = await fetch_all(tx, "select count(*) as n, count(fields ->> 'title') as titled from ing_record")
            [batches] = await fetch_all(tx, "select count(*) as n from ing_task_run_batch")
            [cursor] = await fetch_all(tx, "select normalized_instant from ing_cursor")
        assert stored["n"] == stored["titled"] > 1000
        assert [now - then for now, then in zip(_counts(), was, strict=True)] == [
            stored["n"],
            batches["n"],
            planned.tasks,
        ]
        assert cursor["normalized_instant"] == datetime.fromisoformat(planned.remarks["window"]["to"]).astimezone(UTC)
        names = [span.name for span in spans()]
        assert (names.count("harvest.run"), names.count("harvest.batch")) == (planned.tasks, batches["n"])


class TestASourceThatRefuses:
    async def test_each_failed_task_is_counted_and_told_of(self, desk):
        names = [
            ("errors_total", {"level": "L2"}),
            ("batches_total", {"status": "FAILED"}),
            ("runs_total", {"outcome": "FAILED"}),
        ]
        was = [counted(name, **more) for name, more in names]
        with structlog.testing.capture_logs() as logs:
            planned = await harvest(desk, http={"pathTemplate": "/nowhere"})
        assert [counted(name, **more) - then for (name, more), then in zip(names, was, strict=True)] == [
            planned.tasks
        ] * 3
        told = [(line["event"], line["log_level"], line["code"]) for line in logs if "code" in line]
        assert told.count(("batch.failed", "warning", "SOURCE_REFUSED")) == planned.tasks
        assert told.count(("run.ended", "error", "SOURCE_REFUSED")) == planned.tasks
