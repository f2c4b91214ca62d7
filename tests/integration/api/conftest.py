"""The application over real servers: called without a socket, or through one where streams matter."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from tests.support.edge import EdgeParts, edge_parts

from penstock.api.app import create_app
from penstock.api.server import serve
from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.db import Database
from penstock.kernel.redis import Keys, Redis, connect


@pytest.fixture(scope="session")
async def app(postgres: EmbeddedPostgres, redis_server: EmbeddedRedis) -> AsyncIterator[FastAPI]:
    """One for all tests, as it keeps nothing. Tests that write ask for `database` too, which is emptied."""
    database, redis = Database(postgres.url, name="test-edge"), connect(redis_server.url)
    await database.open()
    async with edge_parts(database, redis, Keys("edge")) as parts:
        made = create_app(parts)
        yield made
        await made.state.readiness.close()
    await redis.aclose()
    await database.close()


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://penstock.test") as made:
        yield made


@pytest.fixture
async def parts(database: Database, redis_client: Redis, keys: Keys) -> AsyncIterator[EdgeParts]:
    """For tests that start a server of their own."""
    async with edge_parts(database, redis_client, keys) as made:
        yield made


@pytest.fixture
async def lenient(parts: EdgeParts) -> AsyncIterator[httpx.AsyncClient]:
    """Of an application whose operator lets sources have private addresses, such as those of stand-ins."""
    desk = replace(parts.harvest, settings=HarvestSettings(allow_private=True))
    app = create_app(replace(parts, harvest=desk))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://penstock.test") as made:
        yield made
    await app.state.readiness.close()
    await desk.close()


@pytest.fixture
async def served(parts: EdgeParts) -> AsyncIterator[str]:
    """The address of the application on a real socket."""
    async with on_a_socket(parts) as address:
        yield address


@asynccontextmanager
async def on_a_socket(parts: EdgeParts) -> AsyncIterator[str]:
    stop = asyncio.Event()
    parts.hub.start()
    serving = asyncio.create_task(serve(parts, stop))
    address = f"http://127.0.0.1:{parts.settings.runtime.port}"
    await until_answers(address, serving)
    yield address
    stop.set()
    await asyncio.wait_for(serving, 10)


async def until_answers(address: str, serving: "asyncio.Task[None]") -> None:
    async with httpx.AsyncClient() as asking:
        while not serving.done():
            try:
                await asking.get(f"{address}/health/live")
            except httpx.ConnectError:
                await asyncio.sleep(0.02)
            else:
                return
    serving.result()
