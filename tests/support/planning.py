"""A source of which nothing but a specification exists, and planners for it; as a program, for tests that kill it."""

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.harvest.planning import Planner, Trigger
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.slices import Span
from penstock.harvest.spec import Operation, Spec
from penstock.kernel.db import Database
from tests.support.clock import TurnedClock

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Compiled:
    spec: Spec
    snapshot: dict[str, Any]
    expr_proto_hash: str
    spec_fingerprint: str
    warnings: tuple[str, ...] = ()


def compiled(operation: Operation = Operation.HARVEST, **sections: Any) -> Compiled:
    """Windows of a day from May on, unless the sections say otherwise."""
    window = {
        "supportsUpdatedSince": True, "watermarkKey": "updated_at", "maxWindow": "1d", "align": "hour",
        "earliest": "2024-05-01T00:00:00Z", "safetyLag": "10m", **sections.pop("window", {}),
    }  # fmt: skip
    http = {"baseUrl": "https://a.example", "queryTemplate": {"ids": "${join(ids, ',')}"}, **sections.pop("http", {})}
    spec = Spec.model_validate({
        "provenanceCode": "crossref", "endpointName": "works", "operation": operation, "registryVersion": 1,
        "window": window, "http": http, **sections,
    })  # fmt: skip
    snapshot = spec.snapshot()
    digest = hashlib.sha256(json.dumps(snapshot, sort_keys=True).encode()).hexdigest()
    return Compiled(spec, snapshot, f"sha256:{digest}", f"sha256:{digest}")


class Counts:
    """An estimator that counts by a rule and remembers what it was asked."""

    def __init__(self, rule: Callable[[Span | None], int | None]) -> None:
        self._rule = rule
        self.asked: list[Span | None] = []

    async def count(self, compiled: Any, span: Span | None) -> int | None:
        self.asked.append(span)
        return self._rule(span)


def nothing_known() -> Counts:
    return Counts(lambda _: None)


def planner(database: Database, made: Compiled, estimator: Any = None, now: datetime = NOW, **settings: Any) -> Planner:
    async def load(trigger: Trigger) -> Compiled:
        await asyncio.sleep(0)
        if made.spec.operation is trigger.operation:
            return made
        spec = made.spec.model_copy(update={"operation": trigger.operation})
        return Compiled(spec, spec.snapshot(), made.expr_proto_hash, made.spec_fingerprint)

    return Planner(database, load, estimator or nothing_known(), HarvestSettings(**settings), TurnedClock(now))


async def main(url: str, operation: str, key: str, sections: str) -> None:
    """One trigger, in a process of its own."""
    database = Database(url, name="planner")
    await database.open()
    made = compiled(Operation(operation), **json.loads(sections))
    trigger = Trigger("crossref", "works", Operation(operation), idempotent_key=key or None)
    outcome = await planner(database, made).plan(trigger)
    sys.stdout.write(f"{outcome.status} {outcome.slices}\n")
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
