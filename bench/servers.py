"""A private PostgreSQL and Redis for a benchmark, with the settings that `penstock up` uses."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
