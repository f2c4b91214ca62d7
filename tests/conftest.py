"""Real PostgreSQL and Redis for every test: one pair per test process, emptied between tests."""

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
import structlog

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.db import Database
from penstock.kernel.migrations import migrate
from penstock.kernel.redis import Keys, Redis, connect
from tests.support.emptying import empty
from tests.support.gateway import Gateway, running_gateway

_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """Commands are quiet and close their files to others; what runs after them in this process does not."""
    configured, level = structlog.get_config(), logging.getLogger("psycopg.pool").level
    umask = os.umask(0o022)
    yield
    os.umask(umask)
    structlog.configure(**configured)
    logging.getLogger("psycopg.pool").setLevel(level)


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A directory that the servers' own account can reach (pytest's own is private)."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-", ignore_cleanup_errors=True) as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="session")
def postgres(home: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(home, settings=_FAST)
    server.start()
    migrate(server.url)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server(home: Path) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(home)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server that a test may stop, kill or pause."""
    with tempfile.TemporaryDirectory(prefix="penstock-own-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        server = EmbeddedRedis(Path(name))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The migrated database, emptied after the test; before it too, where one without this fixture wrote something."""
    with psycopg.connect(postgres.url) as connection:
        left = connection.execute("select exists (select from outbox_events)").fetchone()
    if left == (True,):
        empty(postgres.url)
    yield postgres.url
    empty(postgres.url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, name="test", size=20)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def redis_client(redis_server: EmbeddedRedis) -> AsyncIterator[Redis]:
    client = connect(redis_server.url)
    yield client
    await client.flushall()
    await client.aclose()


@pytest.fixture
def keys() -> Keys:
    return Keys("test")


@pytest.fixture
async def loop() -> asyncio.AbstractEventLoop:
    """The loop that async fixtures live in, for plain test functions (Hypothesis) that drive coroutines."""
    return asyncio.get_running_loop()


@pytest.fixture(scope="session")
def gateway(postgres: EmbeddedPostgres, redis_server: EmbeddedRedis) -> Iterator[Gateway]:
    """A real server process, one for all tests that upload; a test may kill it and start it again."""
    with running_gateway(postgres, redis_server) as made:
        yield made
