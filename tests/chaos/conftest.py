"""Directories that the servers' own account can reach."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


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
