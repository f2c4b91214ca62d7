"""Directories that the servers' own account can reach, and servers in them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.stage import Stage


def _open_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def fresh_home() -> Iterator[Path]:
    yield from _open_directory()


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    yield from _open_directory()


@pytest.fixture(scope="module")
def servers(module_home: Path) -> Iterator[Stage]:
    """PostgreSQL and Redis, shared by the tests of a file."""
    made = Stage(module_home)
    made.open()
    yield made
    made.close()


@pytest.fixture
def stage(servers: Stage) -> Iterator[Stage]:
    """The shared servers; the roles that a test starts end with it."""
    yield servers
    servers.end_actors()
