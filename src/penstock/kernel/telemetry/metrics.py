"""Prometheus metrics of one process, or of all processes of one machine together.

Domains declare metrics with prometheus_client. Where several roles run on one machine, `penstock up` sets
PROMETHEUS_MULTIPROC_DIR before anything imports prometheus_client; each process then writes into files
there and any of them answers for all. Otherwise each process answers for itself.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, multiprocess, start_http_server
from prometheus_client.exposition import CONTENT_TYPE_LATEST

DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = CONTENT_TYPE_LATEST


def exposition() -> bytes:
    """What `/metrics` answers."""
    if DIRECTORY_VARIABLE in os.environ:
        _forget_the_dead(Path(os.environ[DIRECTORY_VARIABLE]))
    return bytes(generate_latest(_registry()))


class Exposition:
    """Makes what `/metrics` answers, in a thread and only so often; callers in between share one answer.

    Adding up the files of all processes takes tens of milliseconds, and anybody may ask.
    """

    def __init__(self, shared_seconds: float) -> None:
        self._shared_seconds = shared_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._made_at = float("-inf")
        self._making: asyncio.Future[bytes] | None = None

    async def read(self) -> bytes:
        is_old = time.monotonic() - self._made_at >= self._shared_seconds
        if self._making is None or (self._making.done() and is_old):
            self._making = asyncio.get_running_loop().run_in_executor(self._thread, self._make)
        return await asyncio.shield(self._making)

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    def _make(self) -> bytes:
        made = exposition()
        self._made_at = time.monotonic()
        return made


@contextmanager
def metrics_server(port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """`/metrics` for roles that have no HTTP of their own; gives the port (0 picks one)."""
    server, thread = start_http_server(port, host, registry=_registry())
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _forget_the_dead(directory: Path) -> None:
    """The live gauges of a process that has ended go; its counters stay in the sums."""
    for file in directory.glob("gauge_live*_*.db"):
        pid = file.stem.rpartition("_")[2]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            file.unlink(missing_ok=True)


def _registry() -> CollectorRegistry:
    if DIRECTORY_VARIABLE not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry
