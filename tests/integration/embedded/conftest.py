"""A data directory per test, where servers' accounts can go."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.places import open_directory

from penstock.embedded import EmbeddedPostgres, Home


@pytest.fixture
def directory() -> Iterator[Path]:
    with open_directory() as path:
        yield path


@pytest.fixture(scope="session")
def stopped_cluster() -> Iterator[Path]:
    """A new PostgreSQL cluster to copy: quicker than making one for each test."""
    with open_directory() as path:
        server = EmbeddedPostgres(path, settings={"fsync": "off"})
        server.start()
        server.stop()
        yield path / "pgdata"


@pytest.fixture
def used_home(directory: Path, stopped_cluster: Path) -> Path:
    """A data directory that has been started once."""
    home = Home(directory / "data")
    home.prepare()
    subprocess.run(["cp", "-a", stopped_cluster, home.path], check=True)
    return home.path
