"""Claiming from a queue of a million rows with 16 claimers, against the barest claim that SQL allows.

The bare loop is one claimer on the same table doing `update … where id = (next id)` by primary key: no order, no
skipping, no queue. It is the floor for a durable one-row claim on this machine.
"""

import asyncio
import json
import statistics
import time
from datetime import timedelta

import psycopg

from bench import servers
from penstock.kernel import leases
from penstock.kernel.db import Database
from penstock.kernel.leases import Leasable

ROWS = Leasable("bench_tasks", "id", ready="status_code = 'QUEUED'", order="priority, scheduled_at, id")
_TABLE = """
create table bench_tasks (
  id bigint generated always as identity primary key, status_code text not null default 'QUEUED',
  priority int not null, scheduled_at timestamptz not null, params jsonb not null,
  lease_owner text, leased_until timestamptz, lease_token bigint not null default 0,
  lease_count int not null default 0);
insert into bench_tasks (priority, scheduled_at, params)
  select n % 5, now() + (n % 1000) * interval '1 ms', '{"window": 1}' from generate_series(1, %(rows)s) n;
create index on bench_tasks (priority, scheduled_at, id) where status_code = 'QUEUED' and leased_until is null;
create index on bench_tasks (leased_until) where leased_until is not null;
vacuum analyze bench_tasks
"""


async def _claimer(database: Database, name: str, claims: int, took: list[float]) -> None:
    for _ in range(claims):
        begun = time.perf_counter()
        async with database.transaction() as tx:
            held = await leases.claim(tx, ROWS, owner=name, ttl=timedelta(minutes=5))
        took.append(time.perf_counter() - begun)
        async with database.transaction() as tx:
            await leases.settle(tx, ROWS, held[0], {"status_code": "SUCCEEDED"})


async def _bare(database: Database, claims: int, took: list[float]) -> None:
    for number in range(1, claims + 1):
        begun = time.perf_counter()
        async with database.transaction() as tx:
            await tx.execute("update bench_tasks set lease_owner = 'bare' where id = %s returning id", (number,))
        took.append(time.perf_counter() - begun)


async def _measure(url: str, claimers: int, claims: int) -> dict[str, float]:
    database = Database(url, name="bench", size=claimers)
    await database.open()
    bare: list[float] = []
    await _bare(database, 500, bare)
    alone: list[float] = []
    await _claimer(database, "alone", 500, alone)
    together: list[float] = []
    begun = time.perf_counter()
    await asyncio.gather(*(_claimer(database, f"c{n}", claims, together) for n in range(claimers)))
    elapsed = time.perf_counter() - begun
    await database.close()
    return {
        "bare_p50_ms": statistics.median(bare) * 1000,
        "alone_p50_ms": statistics.median(alone) * 1000,
        "p50_ms": statistics.median(together) * 1000,
        "p95_ms": statistics.quantiles(together, n=20)[-1] * 1000,
        "claims_and_settles_per_s": len(together) / elapsed,
    }


def run(rows: int = 1_000_000, claimers: int = 16, claims: int = 300) -> dict[str, object]:
    with servers.postgres() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in _TABLE.split(";\n"):
                connection.execute(statement.replace("%(rows)s", str(rows)))
        figures = asyncio.run(_measure(url, claimers, claims))
    return {
        "name": "leases",
        "ratios": {"vs_raw": round(figures["bare_p50_ms"] / figures["alone_p50_ms"], 3)},
        "figures": {"rows": rows, "claimers": claimers, **{key: round(value, 2) for key, value in figures.items()}},
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))  # noqa: T201  its output is what it is run for
