"""What executors promise beside speed: flat memory, a shared limit kept, two faster than one, nothing twice.

Each figure has its own source and database, and the executors are processes of their own: `harvest_ours.py drain`.
BENCH_SHORT=1: fewer records and a faster limit, for a look; BENCH_ONLY=memory,limit,… picks some.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench import harvest_api, servers
from penstock.embedded import EmbeddedPostgres

SHORT = bool(os.environ.get("BENCH_SHORT"))
OURS = Path(__file__).parent / "harvest_ours.py"
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Drained:
    seconds: float  # from the first begun to the last ended
    peak_mb: float  # of the one that had most
    bookkeeping_p95_ms: float  # of a batch, its records not counted
    transaction_p95_ms: float  # nearly all are batches with their records; waiting for a connection is in it


@dataclass(frozen=True)
class Place:
    database_url: str
    environment: dict[str, str]

    @contextmanager
    def queue(self, name: str, source: harvest_api.Running, items: int, limits: Mapping[str, Any]) -> Iterator[str]:
        """A new database with everything planned."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(f"create database {name}")
            url = self.database_url.replace("/postgres?", f"/{name}?")
            asked = json.dumps(harvest_api.window(0, items))
            self.run("prepare", source.url, url, asked, json.dumps(limits)).wait()
            source.forget()
            yield url
            connection.execute(f"drop database {name} with (force)")

    def run(self, mode: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(OURS), mode, *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)

    def drain(self, url: str, limits: Mapping[str, Any], processes: int = 1) -> "Drained":
        started = [self.run("drain", url, json.dumps(limits)) for _ in range(processes)]
        peaks = [0.0]
        watcher = threading.Thread(target=_watch, args=(started, peaks))
        watcher.start()
        said = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
        watcher.join()
        seconds = max(each["ended"] for each in said) - min(each["begun"] for each in said)
        slowest = {name: max(each[name] for each in said) for name in ("bookkeeping_p95_ms", "transaction_p95_ms")}
        return Drained(seconds, max(peaks), **slowest)


def _watch(started: "list[subprocess.Popen[str]]", peaks: list[float]) -> None:
    while any(process.poll() is None for process in started):
        for process in started:
            try:
                peaks.append(psutil.Process(process.pid).memory_info().rss / 1e6)
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.05)


def memory(place: Place) -> dict[str, float]:
    figures = {}
    with harvest_api.running(2_000_000) as source:
        for items in (20_000, 60_000) if SHORT else (50_000, 200_000, 2_000_000):
            with place.queue("memory", source, items, {}) as url:
                done = place.drain(url, {})
            figures |= {
                f"peak_mb_at_{items}": done.peak_mb,
                f"items_per_s_at_{items}": items / done.seconds,
                f"bookkeeping_p95_ms_at_{items}": done.bookkeeping_p95_ms,
                f"transaction_p95_ms_at_{items}": done.transaction_p95_ms,
            }
    return figures


def two(place: Place) -> dict[str, float]:
    """A source that takes half a second to answer, and two tasks at once in each executor."""
    limits, took = {"tasks": 8, "per_executor": 2, "slice_items": 5_000}, {}
    items = 20_000 if SHORT else 80_000
    with harvest_api.running(items, latency=0.5) as source:
        for processes in (1, 2):
            with place.queue("two", source, items, limits) as url:
                took[processes] = place.drain(url, limits, processes).seconds
    return {"one_executor_s": took[1], "two_executors_s": took[2], "two_against_one": took[1] / took[2]}


def limit(place: Place) -> dict[str, float]:
    """Eight windows, four executors, a source that counts exactly; the planner's questions are not counted."""
    rate, items = (2.0, 32_000) if SHORT else (1.0, 56_000)
    limits = {"qps": rate, "burst": 1, "tasks": 8, "per_executor": 2, "slice_items": items // 8}
    with harvest_api.running(items, rate=rate) as source, place.queue("limited", source, items, limits) as url:
        seconds = place.drain(url, limits, 4).seconds
        counts = source.counts()
    ideal = (counts["pages"] - 1) / rate
    return {"limit_seconds": seconds, "limit_of_ideal": seconds / ideal, "limit_429": counts["refused"]}


def kill(place: Place) -> dict[str, float]:
    """Killed in the middle, with one task in hand; the next executor takes over when the lease has run out."""
    items, limits = 50_000, {"tasks": 1, "per_executor": 1, "lease": 2}
    with harvest_api.running(items, latency=0.02) as source, place.queue("killed", source, items, limits) as url:
        process = place.run("drain", url, json.dumps(limits))
        while source.counts()["pages"] < 40:
            time.sleep(0.005)
        process.kill()
        process.communicate()
        place.drain(url, limits)
        counts = source.counts()
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "select count(*), count(distinct provider_id), (select sum((stats->>'inserted')::int + "
                "(stats->>'updated')::int) from ing_task_run_batch) from ing_record"
            ).fetchone()
    assert row is not None
    stored, distinct, written = row
    return {
        "pages_again_after_kill": counts["pages_again"],
        "duplicates_after_kill": stored - distinct + int(written) - stored,
        "missing_after_kill": items - stored,
    }


PARTS: dict[str, Callable[[Place], dict[str, float]]] = {"limit": limit, "two": two, "kill": kill, "memory": memory}


def run() -> dict[str, Any]:
    wanted = os.environ.get("BENCH_ONLY", ",".join(PARTS)).split(",")
    figures: dict[str, float] = {}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        home.chmod(0o755)  # the server's own account must get in
        server = EmbeddedPostgres(home, settings={"max_wal_size": "4GB"})
        server.start()
        stack.callback(server.stop)
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        redis = stack.enter_context(servers.redis())
        place = Place(server.url, {**os.environ, "PYTHONPATH": path, "PENSTOCK_REDIS_URL": redis})
        for name in wanted:
            figures |= PARTS[name](place)
    ratios = {"two_against_one": round(figures.pop("two_against_one"), 3)} if "two_against_one" in figures else {}
    return {
        "name": "harvest_executors",
        "ratios": ratios,
        "figures": {name: round(value, 2) for name, value in figures.items()},
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(), indent=2) + "\n")
