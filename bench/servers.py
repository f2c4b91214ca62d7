"""Servers of a benchmark: a private PostgreSQL and Redis as `penstock up` runs them, and processes on free ports."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.migrations import migrate


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a migrated database that is gone afterwards."""
    with _home() as home, _running(EmbeddedPostgres(home)) as url:
        migrate(url)
        yield url


@contextmanager
def redis() -> Iterator[str]:
    """The URL of an empty Redis that is gone afterwards."""
    with _home() as home, _running(EmbeddedRedis(home)) as url:
        yield url


@contextmanager
def process(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[int]:
    """The pid of one that listens; it is killed afterwards."""
    root = Path(__file__).parents[1]
    paths = {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    own = {**os.environ, **paths, **(environment or {})}
    with subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL) as started:
        try:
            until_listening(port)
            yield started.pid
        finally:
            started.kill()


def until_listening(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("a server did not start")


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in held]


def free_port() -> int:
    return free_ports(1)[0]


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the servers' own account must get in
        yield Path(name)


@contextmanager
def _running(server: EmbeddedPostgres | EmbeddedRedis) -> Iterator[str]:
    server.start()
    try:
        yield server.url
    finally:
        server.stop()
