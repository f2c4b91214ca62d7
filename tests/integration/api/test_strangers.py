"""Clients without a token cannot hold up those who have one: silent and slow connections, endless heads and bodies."""

import asyncio
import time

import httpx
import pytest
from tests.integration.api.conftest import until_answers
from tests.support.edge import bearer, edge_parts
from tests.support.strangers import are_down_to, ended, strangers

from penstock.api import entrance
from penstock.api.server import serve
from penstock.kernel import listening

HEAD = b"POST /api/v1/session HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


@pytest.fixture
async def parts(database, redis_client, keys):
    async with edge_parts(database, redis_client, keys, anonymous_connections=20) as made:
        yield made


@pytest.fixture
def header_seconds() -> int:
    return listening.HEADER_SECONDS


@pytest.fixture
async def served(parts, monkeypatch, header_seconds):
    monkeypatch.setattr(listening, "HEADER_SECONDS", header_seconds)
    stop = asyncio.Event()
    parts.hub.start()
    serving = asyncio.create_task(serve(parts, stop))
    address = f"http://127.0.0.1:{parts.settings.runtime.port}"
    await until_answers(address, serving)
    yield address
    stop.set()
    await asyncio.wait_for(serving, 10)


async def me(address: str, client: httpx.AsyncClient) -> int:
    return (await client.get(f"{address}/api/v1/me", headers=bearer())).status_code


class TestHeaders:
    @pytest.fixture
    def header_seconds(self) -> int:
        return 1

    async def test_http_2_is_not_spoken(self, served):
        async with strangers(served, 1, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0") as [wire]:
            assert b"\0\0" not in await ended(wire)  # no frame of HTTP/2

    async def test_the_headers_of_a_request_have_a_time_limit_as_a_whole(self, served):
        """Also where they come bit by bit, and after an answer."""
        began = time.monotonic()
        said = [b"", b"GET / HTTP/1.1\r\nx-slow: ", b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"]
        async with strangers(served, 3) as wires:
            for (_, writer), text in zip(wires, said, strict=True):
                writer.write(text)
            closing = [asyncio.ensure_future(ended(wire)) for wire in wires]
            while not closing[1].done():
                wires[1][1].write(b"x")
                await asyncio.sleep(0.1)
            await asyncio.gather(*closing)
        assert 0.8 < time.monotonic() - began < 3

    async def test_headers_without_end_are_refused(self, served):
        async with strangers(served, 1, b"GET / HTTP/1.1\r\n" + b"x-long: abcdefgh\r\n" * 8000) as [wire]:
            assert b" 431 " in await ended(wire)


class TestConnections:
    async def test_silent_ones_make_room_and_signed_in_ones_stay(self, served):
        async with httpx.AsyncClient() as known, strangers(served, 300) as wires:
            assert await me(served, known) == 200
            async with httpx.AsyncClient() as new:
                assert await me(served, new) == 200
            await are_down_to(wires, 20)
            [kept] = [one for one in known._transport._pool.connections if one.is_idle()]
            assert await me(served, known) == 200
            assert [kept] == known._transport._pool.connections


class TestBodies:
    async def test_too_many_slow_ones_are_refused_and_signed_in_callers_are_not(self, served, monkeypatch):
        monkeypatch.setattr(entrance, "MOST", 5)
        monkeypatch.setattr(entrance, "SECONDS_TO_SEND", 60.0)
        monkeypatch.setattr(entrance, "REFUSED_AFTER_SECONDS", 0.05)
        async with strangers(served, 50, HEAD) as wires, httpx.AsyncClient() as client:
            await are_down_to(wires, 5)
            body = {"url": "http://127.0.0.1:9/hook"}
            answer = await client.post(f"{served}/api/v1/webhooks", headers=bearer(), json=body)
            assert answer.status_code == 201
            assert (await client.get(f"{served}/health/live")).status_code == 200
            junk = await client.post(f"{served}/api/v1/webhooks", headers={"Authorization": "Bearer no"}, json=body)
            assert (junk.status_code, junk.headers["retry-after"]) == (503, "1")

    async def test_a_new_one_takes_the_place_of_the_oldest_that_had_its_time(self, served, monkeypatch):
        monkeypatch.setattr(entrance, "MOST", 2)
        async with strangers(served, 2, HEAD) as wires, httpx.AsyncClient() as client:
            async with asyncio.timeout(5):
                while (await client.post(f"{served}/api/v1/session", json={"code": "x"})).status_code != 503:
                    await asyncio.sleep(0.02)
            monkeypatch.setattr(entrance, "SECONDS_TO_SEND", 0.0)
            assert (await client.post(f"{served}/api/v1/session", json={"code": "x"})).status_code == 401
            await are_down_to(wires, 1)


class TestOneMerchant:
    @pytest.fixture
    async def parts(self, database, redis_client, keys):
        async with edge_parts(database, redis_client, keys, requests_per_merchant=3) as made:
            yield made

    async def test_it_has_so_many_requests_at_once_and_the_next_is_refused_at_once(self, served):
        async with strangers(served, 3, signed_head()), httpx.AsyncClient() as client:
            async with asyncio.timeout(5):
                while (refused := await client.get(f"{served}/api/v1/me", headers=bearer())).status_code == 200:
                    await asyncio.sleep(0.02)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["code"] == "RATE_LIMITED"
            assert (await asking_tus(served, client)).status_code == 429
            other = await client.get(f"{served}/api/v1/me", headers=bearer(merchant="m-2"))
            assert other.status_code == 200
        async with asyncio.timeout(5), httpx.AsyncClient() as client:
            while await me(served, client) != 200:
                await asyncio.sleep(0.02)

    async def test_event_streams_do_not_count(self, served):
        stream = signed_head("GET /api/v1/dashboard/events", "Accept: text/event-stream")
        async with strangers(served, 3, stream) as wires, httpx.AsyncClient() as client:
            for reader, _ in wires:
                assert b" 200 " in await reader.readline()
            assert await me(served, client) == 200


def signed_head(line: str = "POST /api/v1/webhooks", *more: str) -> bytes:
    """By default a request whose body does not come."""
    body = () if line.startswith("GET") else ("Content-Type: application/json", "Content-Length: 100")
    token = f"Authorization: {bearer()['Authorization']}"
    return "\r\n".join([f"{line} HTTP/1.1", "Host: a", token, *body, *more, "", ""]).encode()


async def asking_tus(address: str, client: httpx.AsyncClient) -> httpx.Response:
    headers = {**bearer(), "Tus-Resumable": "1.0.0", "Upload-Length": "3"}
    return await client.post(f"{address}/api/v1/uploads", headers=headers)
