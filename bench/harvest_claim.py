"""Claiming harvest tasks with a million queued in 24 uneven partitions: 16 claimers in four processes.

The bare claim takes the first of one partition after another with `for update skip locked`: no fairness, no limits of
how many run at once, no run. Ours is what executors call; latency is that of the claim alone, and each claimed
task is let go again, so that the queue stays as it is. Twice: without a pause, which is as much as this machine can do
and shows how claimers are in each other's way, and with tasks of 50 ms, which is short for a request.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from bench import servers
from penstock.harvest.executing import settle
from penstock.harvest.executing.claim import Claimer
from penstock.harvest.executing.settle import Ending
from penstock.harvest.states import RunStatus, TaskStatus
from penstock.kernel.db import Database, fetch_one

SHORT = bool(os.environ.get("BENCH_SHORT"))
ROWS = 100_000 if SHORT else 1_000_000
PROCESSES, CLAIMERS, CLAIMS = 4, 4, 50 if SHORT else 200
SOURCES, OPERATIONS = 8, ("HARVEST", "BACKFILL", "UPDATE")

Claim = Callable[[Database, str], Awaitable[Any]]
Release = Callable[[Database, Any], Awaitable[None]]

# Half of all tasks are of the first source, a quarter of the second, and so on: a long queue beside short ones.
_FILL = """
insert into ing_task (schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name, operation_code,
    namespace_key, params, expr_hash, idempotent_key, status_code, window_from, window_to, priority, scheduled_at)
  select n / 1000, n / 1000, n, 'source' || least(floor(-log(2, random()::numeric + 1e-9)), %(sources)s - 1),
    'search', (%(operations)s::text[])[1 + n %% 3], 'search', '{"window": 1}', 'sha256:bench', 'bench:' || n, 'QUEUED',
    timestamptz '2024-01-01' + n * interval '1 hour', timestamptz '2024-01-01' + (n + 1) * interval '1 hour',
    (array[50, 200, 100])[1 + n %% 3], now() - interval '1 day' + (n %% 10000) * interval '1 ms'
  from generate_series(1, %(rows)s) n
"""
_PARTITIONS = """
insert into ing_partition (provenance_code, endpoint_name, operation_code, c_max)
  select distinct provenance_code, endpoint_name, operation_code, 16 from ing_task
"""
_BARE = """
update ing_task set lease_owner = %(owner)s, leased_until = now() + interval '5 min', lease_token = lease_token + 1,
    lease_count = lease_count + 1
  where id = (select id from ing_task where provenance_code = %(source)s and endpoint_name = 'search'
    and operation_code = %(operation)s and status_code = 'QUEUED' and leased_until is null
    order by priority, scheduled_at, id limit 1 for update skip locked)
  returning id, lease_token
"""
_GIVEN_BACK = Ending(RunStatus.CANCELLED, TaskStatus.QUEUED, "given_back")
_turn = count(os.getpid())


async def _bare_claim(database: Database, owner: str) -> Any:
    turn = next(_turn)
    partition = {"source": f"source{turn % SOURCES}", "operation": OPERATIONS[turn // SOURCES % len(OPERATIONS)]}
    async with database.transaction() as tx:
        return await fetch_one(tx, _BARE, {"owner": owner, **partition})


async def _bare_release(database: Database, held: Any) -> None:
    async with database.transaction() as tx:
        await tx.execute(
            "update ing_task set lease_owner = null, leased_until = null where id = %(id)s"
            " and lease_token = %(lease_token)s",
            held,
        )


_claimers_by_name: dict[str, Claimer] = {}


async def _our_claim(database: Database, owner: str) -> Any:
    if owner not in _claimers_by_name:
        _claimers_by_name[owner] = Claimer(database, owner, 64, timedelta(minutes=5))
    return await _claimers_by_name[owner].claim()


async def _our_release(database: Database, held: Any) -> None:
    """As an executor that shuts down: the task goes back to the queue."""
    async with database.transaction() as tx:
        await settle.end(tx, held, _GIVEN_BACK, source=TaskStatus.DISPATCHED)


async def _our_release_later(database: Database, held: Any) -> None:
    await asyncio.sleep(0.05)
    await _our_release(database, held)


CANDIDATES: dict[str, tuple[Claim, Release]] = {
    "bare": (_bare_claim, _bare_release),
    "ours": (_our_claim, _our_release),
    "ours_with_tasks": (_our_claim, _our_release_later),
}


def _fill(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FILL, {"rows": ROWS, "sources": SOURCES, "operations": list(OPERATIONS)})
        connection.execute(_PARTITIONS)
        connection.execute("vacuum analyze ing_task")


async def _claimer(database: Database, name: str, which: str, took: list[float]) -> int:
    """How often there was nothing to be had."""
    claim, release = CANDIDATES[which]
    missed = 0
    for _ in range(CLAIMS):
        begun = time.perf_counter()
        held = await claim(database, name)
        took.append(time.perf_counter() - begun)
        if held is None:
            missed += 1
        else:
            await release(database, held)
    return missed


async def _claimers(url: str, which: str, process: str) -> None:
    """One process; begins when it is told to, so that all begin together."""
    database = Database(url, name="bench", size=CLAIMERS)
    await database.open()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    took: list[float] = []
    begun = time.perf_counter()
    missed = await asyncio.gather(*(_claimer(database, f"{process}.{n}", which, took) for n in range(CLAIMERS)))
    seconds = time.perf_counter() - begun
    await database.close()
    sys.stdout.write(json.dumps({"took": took, "missed": sum(missed), "seconds": seconds}) + "\n")


def _measure(url: str, which: str) -> dict[str, float]:
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, which, url, str(number)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [json.loads(process.communicate()[0]) for process in started]
    took = [each for one in said for each in one["took"]]
    return {
        "p50_ms": statistics.median(took) * 1000,
        "p95_ms": statistics.quantiles(took, n=20)[-1] * 1000,
        "claims_per_s": len(took) / max(one["seconds"] for one in said),
        "missed": sum(one["missed"] for one in said),
    }


def run() -> dict[str, Any]:
    with servers.postgres() as url:
        begun = time.perf_counter()
        _fill(url)
        filled = time.perf_counter() - begun
        found = {which: _measure(url, which) for which in CANDIDATES}
    ratios = {"vs_bare_loop": round(found["bare"]["p50_ms"] / found["ours"]["p50_ms"], 3)} if "ours" in found else {}
    figures = {f"{which}_{key}": round(value, 2) for which, row in found.items() for key, value in row.items()}
    return {
        "name": "harvest_claim",
        "ratios": ratios,
        "figures": {"rows": ROWS, "claimers": PROCESSES * CLAIMERS, "fill_s": round(filled, 1), **figures},
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case [which, url, process]:
            uvloop.run(_claimers(url, which, process))
        case _:
            sys.stdout.write(json.dumps(run(), indent=2) + "\n")
