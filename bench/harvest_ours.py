"""Ours, for bench/harvest.py: a source file applied, planned, and drained by an executor, as in production.

`one SOURCE DATABASE WINDOW` does all of it in one process and measures from the source file to the last commit;
`prepare` ends with the queue filled, and `drain` works it off, so that several processes can share the work.
"""

import asyncio
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, cast

import uvloop

from penstock.harvest import records
from penstock.harvest.desk import HarvestDesk, check
from penstock.harvest.executing import run
from penstock.harvest.planning import Trigger
from penstock.harvest.registry.apply import apply
from penstock.harvest.registry.document import read_source
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, Tx, fetch_one
from penstock.kernel.migrations import migrate
from penstock.kernel.rategate import RateGate
from penstock.kernel.redis import Keys, connect

NAME = "mock"
_SECOND = timedelta(seconds=1)


def _document(url: str, limits: Mapping[str, Any]) -> bytes:
    """JSON is YAML. `limits`: qps and burst of the source; how many tasks run at once; records in a slice."""
    rate = {"qps": limits.get("qps", 100_000), "burst": limits.get("burst", 1_000), "pace": limits.get("pace", 0.95)}
    source = {
        "source": NAME,
        "name": "Mock",
        "endpoints": {
            "works": {
                "role": "SEARCH",
                "default": True,
                "http": {
                    "baseUrl": url.removesuffix("/works"),
                    "pathTemplate": "/works",
                    "allowHttp": True,
                    "queryTemplate": {
                        "rows": "${page.size}", "cursor": "${page.token}", "from": "${window.from}",
                        "until": "${window.to}",
                    },
                },
                "pagination": {
                    "type": "TOKEN", "initialToken": "*", "nextTokenPath": "$.message['next-cursor']",
                    "pageSize": 1000, "maxPageSize": 1000,
                },
                "window": {
                    "supportsUpdatedSince": True, "watermarkKey": "updated", "bounds": "INCLUSIVE",
                    "granularity": "1s", "align": "sec",
                    "maxWindow": limits.get("window", "365d"), "safetyLag": "1m",
                },
                "rateLimit": rate,
                "response": {
                    "itemsPath": "$.message.items", "idPath": "$.id", "updatedAtPath": "$.updated",
                    "totalPath": "$.message['total-results']",
                },
                "count": {"queryTemplate": {"rows": "0"}},
                "planning": {
                    "cMax": limits.get("tasks", 8), "sliceItems": limits.get("slice_items", 50_000),
                },
            }
        },
    }  # fmt: skip
    return json.dumps(source).encode()


class TimedDatabase(Database):
    """Remembers how long each transaction took, with the wait for a connection and the commit."""

    def __init__(self, url: str) -> None:
        super().__init__(url, name="bench")
        self.took: list[float] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        begun = time.perf_counter()
        async with super().transaction() as tx:
            yield tx
        self.took.append(time.perf_counter() - begun)


@asynccontextmanager
async def _desk(database_url: str, limits: Mapping[str, Any]) -> AsyncIterator[HarvestDesk]:
    database = TimedDatabase(database_url)
    await database.open()
    redis = connect(os.environ["PENSTOCK_REDIS_URL"])
    keys = Keys(f"bench:{database_url.rsplit('/', 1)[1].partition('?')[0]}:")
    settings = HarvestSettings(
        total=limits.get("tasks", 8),
        per_executor=limits.get("per_executor", 4),
        poll_seconds=timedelta(seconds=0.2),
        lease_seconds=timedelta(seconds=limits.get("lease", 60)),
    )
    desk = HarvestDesk(database, RateGate(redis, keys), settings, SystemClock())
    try:
        yield desk
    finally:
        await desk.close()
        await redis.aclose()
        await database.close()


async def _plan(desk: HarvestDesk, source_url: str, asked: Mapping[str, str], limits: Mapping[str, Any]) -> None:
    async with desk.database.transaction() as tx:
        await apply(tx, read_source(_document(source_url, limits), "mock.yaml"), "bench", check=check)
    since, last = (datetime.fromisoformat(asked[end]) for end in ("from", "until"))
    outcome = await desk.planner.plan(Trigger(NAME, since=since, until=last + _SECOND))
    if not outcome.tasks:
        raise RuntimeError(f"nothing was planned: {outcome}")


async def prepare(source_url: str, database_url: str, asked: str, limits: str = "{}") -> dict[str, Any]:
    migrate(database_url)
    given = json.loads(limits)
    async with _desk(database_url, given) as desk:
        await _plan(desk, source_url, json.loads(asked), given)
    return {}


async def drain(database_url: str, limits: str = "{}") -> dict[str, Any]:
    """Says when it began and ended, by the machine's clock: several that run at once are measured together."""
    books = _Books()
    async with _desk(database_url, json.loads(limits)) as desk:
        begun = time.time()
        await desk.executor(f"bench-{os.getpid()}").drain(asyncio.Event())
        return {
            "begun": begun, "ended": time.time(), "bookkeeping_p95_ms": _p95(books.took),
            "transaction_p95_ms": _p95(cast("TimedDatabase", desk.database).took),
        }  # fmt: skip


class _Books:
    """What storing a batch takes beside the records themselves: the batch's row, evidence, progress, cursor."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._records: dict[asyncio.Task[Any] | None, float] = {}
        watched: Any = run
        self._store_batch, self._upsert = watched.store_batch, records.upsert
        watched.store_batch, records.upsert = self.store_batch, self.upsert

    async def store_batch(self, *given: Any) -> Any:
        begun = time.perf_counter()
        stored = await self._store_batch(*given)
        self.took.append(time.perf_counter() - begun - self._records.pop(asyncio.current_task(), 0.0))
        return stored

    async def upsert(self, *given: Any) -> Any:
        begun = time.perf_counter()
        counts = await self._upsert(*given)
        self._records[asyncio.current_task()] = time.perf_counter() - begun
        return counts


def _p95(took: list[float]) -> float:
    return statistics.quantiles(took, n=20)[-1] * 1000


def one(source_url: str, database_url: str, *more: str) -> None:
    """The tables are made first, and forgotten: what that needs in memory is nothing that an executor needs."""
    migrate(database_url)
    os.execv(sys.executable, [sys.executable, __file__, "measured", source_url, database_url, *more])


async def measured(source_url: str, database_url: str, asked: str, limits: str = "{}") -> dict[str, Any]:
    given = json.loads(limits)
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    async with _desk(database_url, given) as desk:
        await _plan(desk, source_url, json.loads(asked), given)
        await desk.executor("bench").drain(asyncio.Event())
        seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
        items = await _whole(desk.database, json.loads(asked))
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"items": items, "seconds": seconds, "cpu": spent}


async def _whole(database: Database, asked: Mapping[str, str]) -> int:
    """How many records are stored; the cursor and the books must say the same."""
    async with database.transaction() as tx:
        row = await fetch_one(
            tx,
            "select (select count(*) from ing_record) as records, (select cursor_value from ing_cursor) as reached,"
            " (select sum((stats->>'inserted')::int) from ing_task_run_batch) as inserted,"
            " (select count(*) from ing_task where status_code <> 'SUCCEEDED') as open",
        )
    end = datetime.fromisoformat(asked["until"]) + _SECOND
    if row is None or row["open"] or row["inserted"] != row["records"] or datetime.fromisoformat(row["reached"]) != end:
        raise RuntimeError(f"not whole: {row}")
    return int(row["records"])


if __name__ == "__main__":
    if sys.argv[1] == "one":
        one(*sys.argv[2:])
    mode: Any = {"measured": measured, "prepare": prepare, "drain": drain}[sys.argv[1]]
    sys.stdout.write(json.dumps(uvloop.run(mode(*sys.argv[2:]))) + "\n")
