"""A harvest in one process: a source applied from its document, a stand-in served, a real planner, real executors.

Time is the library's: whoever advances it moves the source and Penstock's clock together.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from penstock.harvest.desk import HarvestDesk, check
from penstock.harvest.planning import Trigger
from penstock.harvest.planning.trigger import Outcome
from penstock.harvest.registry.apply import apply
from penstock.harvest.registry.document import read_source
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.rategate import RateGate
from penstock.kernel.redis import Keys, Redis
from tests.standins import Habits, Library, Standin, overrides, standin

SOURCES = Path(__file__).parents[2] / "sources"
QUICK = {"qps": 900, "burst": 50, "providerQps": 1000, "concurrency": 8, "coolDown": "1s", "minRate": 100,
         "headerAdaptive": False}  # fmt: skip
HASTY = {"first": "1ms", "longest": "5ms", "maxAttempts": 3}
SETTINGS = {"poll_seconds": timedelta(milliseconds=30), "attempts": 2, "permit_seconds": timedelta(seconds=2)}
MICROSECOND = "PT0.000001S"
CALM = Habits(revised=0.2, deleted=0.02, late=0.0)


class LibraryClock(SystemClock):
    """Both of its hands move when the library's time does."""

    def __init__(self, library: Library) -> None:
        self._library, self._start = library, library.now

    def now(self) -> datetime:
        return self._library.now

    def monotonic(self) -> float:
        return super().monotonic() + (self._library.now - self._start).total_seconds()


class Stored(NamedTuple):
    updated: datetime
    is_deleted: bool
    body: str


@dataclass
class Harvesting:
    """One process's desk beside one stand-in."""

    desk: HarvestDesk
    api: Standin
    source: str
    run: Mapping[str, Any]

    @property
    def database(self) -> Database:
        return self.desk.database

    @property
    def library(self) -> Library:
        return self.api.library

    async def apply(self, document: Mapping[str, Any] | bytes, name: str | None = None) -> None:
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        read = read_source(text, f"{name or self.source}.yaml")
        async with self.database.transaction() as tx:
            await apply(tx, read, "ann", check=check)

    async def plan(self, **wish: Any) -> Outcome:
        """`run` is laid over what every run here says."""
        run = laid(self.run, wish.pop("run", {}))
        return await self.desk.planner.plan(Trigger(self.source, run=run, **wish))

    async def drain(self, executors: int = 1, seconds: float = 20) -> None:
        stop = asyncio.Event()
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(self.desk.executor(f"executor-{n}").drain(stop) for n in range(executors)))

    async def harvest(self, **wish: Any) -> Outcome:
        """Plan and carry out."""
        outcome = await self.plan(**wish)
        await self.drain()
        return outcome

    async def work_until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
        """Executors that go on until something is so, for tasks that rest instead of ending."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.desk.executor("executor").run(stop))
        try:
            async with asyncio.timeout(seconds):
                while not await condition():
                    await asyncio.sleep(0.02)
        finally:
            stop.set()
            await running

    async def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        async with self.database.transaction() as tx:
            return await fetch_all(tx, query, values or None)

    async def stored(self) -> dict[str, Stored]:
        rows = await self.rows(
            "select provider_id, updated_at, is_deleted, body from ing_record where provenance_code = %s", self.source
        )
        return {
            row["provider_id"]: Stored(row["updated_at"].astimezone(UTC), row["is_deleted"], row["body"])
            for row in rows
        }

    async def tasks(self) -> dict[str, int]:
        rows = await self.rows("select status_code, count(*) as n from ing_task group by 1")
        return {row["status_code"]: row["n"] for row in rows}

    async def requests(self) -> list[dict[str, Any]]:
        """The books, in the order in which they were written."""
        return await self.rows("select * from ing_task_run_batch order by id")

    async def watermark(self) -> datetime:
        (row,) = await self.rows(
            "select normalized_instant from ing_cursor where provenance_code = %s and operation_code = 'HARVEST'",
            self.source,
        )
        return row["normalized_instant"].astimezone(UTC)

    def served(self, before: datetime | None = None) -> dict[str, Stored]:
        """What the source holds now; `before`: only what it stamps earlier than that."""
        truth = self.api.records_at(self.library.now)
        return {
            one: Stored(shown.updated, self.is_told_deleted(shown), shown.body.decode())
            for one, shown in truth.items()
            if before is None or shown.updated < before
        }

    def is_told_deleted(self, shown: Any) -> bool:
        return bool(shown.is_deleted and (self.api.keeps_deleted or self.api.name == "generic"))


def laid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings within each other, the second over the first."""
    return {
        **under,
        **{
            key: laid(under[key], value)
            if isinstance(value, Mapping) and isinstance(under.get(key), Mapping)
            else value
            for key, value in over.items()
        },
    }


def past(library: Library, share: float = 1.0, beyond: timedelta = timedelta(days=4)) -> None:
    """Time stands at a share of the library's days; at its end everything has settled."""
    library.now = library.end + beyond if share >= 1 else library.start + (library.end - library.start) * share


@asynccontextmanager
async def harvesting(
    database: Database, redis: Redis, name: str, library: Library, **options: Any
) -> AsyncIterator[Harvesting]:
    """`document`: another one than the shipped; `settings` and what stand-ins take."""
    document, settings = options.pop("document", None), options.pop("settings", {})
    source = name if document is None else "generic"
    keys = Keys("harvesting")
    async with standin(name, library, enforce_rate=options.pop("enforce_rate", False), **options) as api:
        wanted = HarvestSettings(**{**SETTINGS, **settings})
        desk = HarvestDesk(database, RateGate(redis, keys), wanted, LibraryClock(library))
        if document is None:
            run = laid(overrides(name, api.url), {"rateLimit": QUICK, "retry": HASTY, "window": {"maxWindow": "1d"}})
        else:
            run = {}
        here = Harvesting(desk, api, source, run)
        await here.apply((SOURCES / f"{name}.yaml").read_bytes() if document is None else document(api.url))
        try:
            yield here
        finally:
            await desk.close()


# A source of our own -------------------------------------------------------------------------------------------
_PAGES: dict[str, dict[str, Any]] = {
    "offset": {"type": "OFFSET"},
    "page0": {"type": "PAGE", "base1": False},
    "page1": {"type": "PAGE", "base1": True},
    "token": {"type": "TOKEN", "nextTokenPath": "$.next"},
    "url": {"type": "URL", "nextUrlPath": "$.next_url"},
    "time": {"type": "TIME", "maxPageSize": 100},
}
_ASKS = {"offset": {"offset": "${page.offset}"}, "page0": {"page": "${page.no}"}, "page1": {"page": "${page.no}"},
         "token": {"token": "${page.token}"}, "url": {}, "time": {}}  # fmt: skip
_BOUNDS = {
    name: f'${{formatDateTime(window.{name}, "%Y-%m-%dT%H:%M:%S.%fZ")}}' for name in ("from", "to")
}  # fmt: skip


def written(kind: str = "offset", who: str = "none", **endpoint: Any) -> Callable[[str], dict[str, Any]]:
    """The document of a plain source, once its address is known; `endpoint` is laid over its sections."""

    def document(url: str) -> dict[str, Any]:
        credentials, top = endpoint.get("credentials"), endpoint.get("endpoints", {})
        own = {key: value for key, value in endpoint.items() if key not in {"credentials", "endpoints"}}
        works = {
            "default": True,
            "http": {"pathTemplate": f"/{who}/{kind}",
                     "queryTemplate": {"limit": "${page.size}", **_BOUNDS, **_ASKS[kind]}},
            "pagination": {**_PAGES[kind], "pageSize": 50},
            "window": {"supportsUpdatedSince": True, "watermarkKey": "updated", "granularity": MICROSECOND,
                       "maxWindow": "1d", "initial": "30d"},
            "response": {"itemsPath": "$.items", "idPath": "$.id", "updatedAtPath": "$.updated",
                         "totalPath": "$.total", "deletedPath": "$.deleted", "deletedValue": "true"},
        }  # fmt: skip
        return {
            "source": "generic",
            "name": "Generic",
            "defaults": {"http": {"baseUrl": url, "allowHttp": True}, "rateLimit": QUICK, "retry": HASTY},
            **({"credentials": credentials} if credentials else {}),
            "endpoints": {"works": laid(works, own), **top},
        }

    return document


DETAILS = {
    "role": "DETAIL",
    "http": {"pathTemplate": "/none/details", "queryTemplate": {"ids": '${join(ids, ",")}'}},
    "response": {"itemsPath": "$.items", "idPath": "$.id", "updatedAtPath": "$.updated", "deletedPath": "$.deleted",
                 "deletedValue": "true"},
    "batching": {"idBatchSize": 20, "maxIdBatchSize": 200},
}  # fmt: skip
