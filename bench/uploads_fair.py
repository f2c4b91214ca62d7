"""Fair shares of uploads: how long one merchant's small uploads take while another sends as much as it can.

The greedy merchant has 150 connections in processes of its own, each of which sends one file after the other: small
ones, or large ones in 8 MiB requests. `vs_alone` is the modest merchant's 95th percentile alone over that beside it.
`python -m bench.uploads_fair`.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench import servers
from bench.uploads import CHUNK, SECRET, SMALL_BYTES, Candidate, Connection
from penstock.kernel.identity import Caller, Role, issue_token

CONNECTIONS, PROCESSES = 150, 2
SAMPLES = 60
GREED = {"small": SMALL_BYTES, "large": 64 << 20}


def run() -> dict[str, Any]:
    home = tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=os.environ.get("BENCH_DIRECTORY"))
    with home as directory, _server(Path(directory)) as modest:
        greedy = replace(modest, headers=_token("m-greedy"))
        found = {"alone": _percentiles(modest)}
        for name, size in GREED.items():
            with _sending(greedy, size):
                found[name] = _percentiles(modest)
            found[f"{name}_over"] = _percentiles(modest)
    ratios = {f"vs_alone_{name}": round(found["alone"]["p95_ms"] / found[name]["p95_ms"], 3) for name in GREED}
    figures = {f"{name}_{key}": value for name, row in found.items() for key, value in row.items()}
    return {"name": "uploads_fair", "ratios": ratios, "figures": figures}


@contextmanager
def _server(home: Path) -> Iterator[Candidate]:
    port = servers.free_port()
    with servers.postgres() as database_url, servers.redis() as redis_url:
        environment = {
            "PENSTOCK_DATABASE_URL": database_url, "PENSTOCK_REDIS_URL": redis_url, "PENSTOCK_JWT_SECRET": SECRET,
            "PENSTOCK_HOME": str(home), "PENSTOCK_PORT": str(port), "PENSTOCK_GRPC_PORT": str(servers.free_port()),
            "GW_TUS_BYTES_PER_MERCHANT": str(12 << 30),
        }  # fmt: skip
        with servers.process([sys.executable, "-m", "penstock", "serve"], port, environment) as pid:
            yield Candidate("penstock", port, "/api/v1/uploads", pid, _token("m-modest"))


def _token(merchant: str) -> str:
    token = issue_token(SECRET, Caller("bench", merchant, Role.UPLOADER), timedelta(hours=1))
    return f"Authorization: Bearer {token}\r\n"


@contextmanager
def _sending(candidate: Candidate, size: int) -> Iterator[None]:
    """Ends with the block, or when the merchant's quota is used up."""
    context = multiprocessing.get_context("spawn")
    count = CONNECTIONS // PROCESSES
    started = [
        context.Process(target=_send_for_ever, args=(candidate, size, count), daemon=True) for _ in range(PROCESSES)
    ]
    for each in started:
        each.start()
    time.sleep(3)
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.join()
        time.sleep(2)


def _send_for_ever(candidate: Candidate, size: int, connections: int) -> None:
    chunk = os.urandom(min(size, CHUNK))

    def send() -> None:
        while True:
            try:
                Connection(candidate).upload(size, chunk)
            except (RuntimeError, OSError):
                time.sleep(0.1)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    threads[0].join()


def _percentiles(candidate: Candidate) -> dict[str, float]:
    connection, content, taken = Connection(candidate), os.urandom(SMALL_BYTES), []
    for _ in range(SAMPLES):
        began = time.monotonic()
        connection.upload(len(content), content)
        taken.append((time.monotonic() - began) * 1000)
    connection.close()
    taken.sort()
    return {"p50_ms": round(taken[len(taken) // 2], 1), "p95_ms": round(taken[int(len(taken) * 0.95)], 1)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(), indent=2) + "\n")
