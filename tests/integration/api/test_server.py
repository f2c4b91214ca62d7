"""The server on its port: starting, being in the way, stopping."""

import asyncio
import socket
import time
from datetime import timedelta

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.integration.api.conftest import until_answers
from tests.support.edge import bearer, edge_parts

from penstock.api import guard
from penstock.api import server as server_file
from penstock.api.app import create_app
from penstock.api.server import serve
from penstock.kernel.settings import SettingsError


class TestATakenPort:
    async def test_it_is_a_sentence_that_names_the_port(self, parts):
        port = parts.settings.runtime.port
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            with pytest.raises(SettingsError, match=f"port {port} on 127.0.0.1 is taken .* PENSTOCK_PORT"):
                await serve(parts, asyncio.Event())

    async def test_so_is_a_host_that_is_not_ours(self, database, redis_client, keys):
        async with edge_parts(database, redis_client, keys, host="192.0.2.1") as parts:
            with pytest.raises(SettingsError, match=r"192\.0\.2\.1"):
                await serve(parts, asyncio.Event())


@pytest.fixture
def slow(monkeypatch):
    """The application with one route that takes as long as it is told."""
    began, finish = asyncio.Event(), asyncio.Event()

    async def wait(_: Request) -> Response:
        began.set()
        await finish.wait()
        return Response("finished")

    def with_slow_route(parts):
        app = create_app(parts)
        app.router.routes.append(Route("/slow", wait))
        return app

    monkeypatch.setattr(server_file, "create_app", with_slow_route)
    return began, finish


async def running(parts, stop):
    serving = asyncio.create_task(serve(parts, stop))
    address = f"http://127.0.0.1:{parts.settings.runtime.port}"
    await until_answers(address, serving)
    return serving, address


class TestStopping:
    async def test_requests_under_way_are_finished_and_new_ones_refused(self, parts, slow):
        began, finish = slow
        stop = asyncio.Event()
        serving, address = await running(parts, stop)
        async with httpx.AsyncClient() as client:
            under_way = asyncio.create_task(client.get(f"{address}/slow"))
            await began.wait()
            stop.set()
            await _until_refused(address)
            assert not serving.done()
            finish.set()
            assert (await under_way).text == "finished"
        await asyncio.wait_for(serving, 5)

    async def test_event_streams_are_ended_properly(self, parts):
        stop = asyncio.Event()
        serving, address = await running(parts, stop)
        async with httpx.AsyncClient(timeout=10) as client:
            path = f"{address}/api/v1/dashboard/events"
            async with client.stream("GET", path, headers=bearer()) as answer:
                chunks = answer.aiter_bytes()
                await anext(chunks)
                stop.set()
                async for _ in chunks:
                    pass
        await asyncio.wait_for(serving, 5)

    async def test_what_never_ends_is_cut_off_in_time(self, database, redis_client, keys, slow):
        async with edge_parts(database, redis_client, keys, shutdown_seconds=timedelta(seconds=0.5)) as parts:
            began, _ = slow
            stop = asyncio.Event()
            serving, address = await running(parts, stop)
            async with httpx.AsyncClient() as client:
                under_way = asyncio.create_task(client.get(f"{address}/slow"))
                await began.wait()
                started = time.monotonic()
                stop.set()
                await asyncio.wait_for(serving, 5)
                assert 0.4 < time.monotonic() - started < 2
                assert (await under_way).json()["code"] == "SERVICE_UNAVAILABLE"

    async def test_an_idle_connection_does_not_hold_us_up(self, parts):
        stop = asyncio.Event()
        serving, address = await running(parts, stop)
        async with httpx.AsyncClient() as client:
            await client.get(f"{address}/health/live")
            stop.set()
            await asyncio.wait_for(serving, 5)


async def _until_refused(address):
    async with asyncio.timeout(5):
        while True:
            try:
                async with httpx.AsyncClient() as client:
                    await client.get(f"{address}/health/live")
            except httpx.TransportError:
                return
            await asyncio.sleep(0.02)


class TestSlowClients:
    async def test_a_body_that_never_comes_is_given_up(self, served, monkeypatch):
        monkeypatch.setattr(guard, "SLOWEST_BODY_SECONDS", 0.3)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.rpartition(":")[2]))
        writer.write(
            b"POST /api/v1/session HTTP/1.1\r\nHost: penstock.test\r\nContent-Type: application/json\r\n"
            b'Content-Length: 20\r\n\r\n{"code":'
        )
        answer = await asyncio.wait_for(reader.readuntil(b"}"), 5)
        writer.close()
        assert b" 400 " in answer
        assert b"did not arrive within 0.3 s" in answer
