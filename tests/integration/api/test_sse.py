"""Server-sent events over a real server process and real sockets."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from tests.support.streams import World

from penstock.kernel.streams import StreamEvent, StreamSettings

JOB = "job:1"
ROOT = Path(__file__).parents[3]


class ServerProcess:
    """`tests.support.sse_server` on a port that stays the same over restarts."""

    def __init__(self, database_url: str, redis_url: str, **settings: float) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = {"database": database_url, "redis": redis_url, "port": self.port, "settings": settings}
        self._command = [sys.executable, "-m", "tests.support.sse_server", json.dumps(options)]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
        self.process = subprocess.Popen(self._command, env=environment, cwd=ROOT)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=5)
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server did not start")

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(10)
            self.process = None

    async def metric(self, name: str) -> float:
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://127.0.0.1:{self.port}/metrics")).text
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    async def metric_becomes(self, name: str, wanted: float, seconds: float = 3) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if await self.metric(name) == wanted:
                return True
            await asyncio.sleep(0.02)
        return False


class Client:
    """A bare socket that speaks just enough HTTP and SSE, so that it can also stop reading."""

    def __init__(self, port: int, *, last_event_id: str | None = None, merchant: str = "m") -> None:
        self._port = port
        self._query = f"GET /events/{JOB}?merchant={merchant} HTTP/1.1\r\nHost: test\r\n"
        self.last_event_id = last_event_id
        self.head = ""
        self.writer: asyncio.StreamWriter | None = None

    async def connect(self) -> "Client":
        self.vanish()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**16)
        resume = f"Last-Event-ID: {self.last_event_id}\r\n" if self.last_event_id else ""
        self.writer.write(f"{self._query}{resume}\r\n".encode())
        self.head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 5)).decode()
        return self

    async def frames(self, count: int, seconds: float = 8) -> list[dict[str, str]]:
        """The next frames as field → value; chunk sizes of the transfer coding are skipped."""
        found: list[dict[str, str]] = []
        async with asyncio.timeout(seconds):
            frame: dict[str, str] = {}
            while len(found) < count:
                line = (await self.reader.readuntil(b"\n")).decode().rstrip("\r\n")
                key, colon, value = line.partition(": ")
                if colon:
                    frame[key] = value
                elif not line and frame:
                    found.append(frame)
                    self.last_event_id = frame.get("id", self.last_event_id)
                    frame = {}
        return found

    async def numbers(self, count: int, seconds: float = 8) -> list[int]:
        return [json.loads(frame["data"])["n"] for frame in await self.frames(count, seconds)]

    async def opened(self) -> "Client":
        """Connected, and past the retry line and the snapshot."""
        await self.connect()
        retry, snapshot = await self.frames(2)
        assert (retry, snapshot["event"]) == ({"retry": "5000"}, "snapshot")
        return self

    def vanish(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()


@pytest.fixture
def servers(database_url, redis_server):
    started: list[ServerProcess] = []

    def start(**settings: float) -> ServerProcess:
        server = ServerProcess(database_url, redis_server.url, **{"catch_up_sec": 0.3, **settings})
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.end()


@pytest.fixture
def world(database, redis_client, keys):
    return World(database, redis_client, keys, StreamSettings())


class TestTheStream:
    async def test_it_is_an_event_stream_that_no_proxy_may_hold_back(self, servers):
        client = await Client(servers().port).opened()
        head = client.head.lower()
        assert head.startswith("http/1.1 200")
        assert "content-type: text/event-stream" in head
        assert "cache-control: no-cache" in head
        assert "x-accel-buffering: no" in head
        assert "content-length" not in head
        client.vanish()

    async def test_heartbeats_come_on_time_while_events_flow_and_while_redis_is_silent(self, servers, world):
        client = await Client(servers(keepalive_sec=0.4).port).opened()
        began = time.monotonic()
        quiet = await client.frames(2)
        assert [frame["event"] for frame in quiet] == ["heartbeat"] * 2
        assert set(json.loads(quiet[0]["data"])) == {"ts"}
        assert "id" not in quiet[0]
        assert 0.5 < time.monotonic() - began < 2
        busy = []
        for fact in range(12):
            await world.announce(JOB, fact)
            await asyncio.sleep(0.1)
            busy += await client.frames(1)
        assert "heartbeat" in [frame["event"] for frame in busy]
        client.vanish()

    async def test_two_servers_deliver_the_same_events(self, servers, world):
        one, two = servers(), servers()
        clients = [await Client(server.port).opened() for server in (one, two)]
        await world.happen(JOB, *range(30))
        assert await clients[0].frames(30) == await clients[1].frames(30)
        for client in clients:
            client.vanish()


class TestResuming:
    async def test_a_killed_server_that_comes_back_goes_on_without_a_hole_or_a_repeat(self, servers, world):
        server = servers()
        client = await Client(server.port).opened()
        await world.happen(JOB, 1, 2, 3)
        assert await client.numbers(3) == [1, 2, 3]
        server.end(signal.SIGKILL)
        await world.happen(JOB, *range(4, 300))
        server.start()
        await client.connect()
        await world.happen(JOB, 300)
        [retry] = await client.frames(1)
        assert retry == {"retry": "5000"}
        assert await client.numbers(297) == list(range(4, 301))
        client.vanish()

    async def test_a_server_that_is_stopped_ends_its_streams_cleanly(self, servers, world):
        server = servers()
        client = await Client(server.port).opened()
        server.process.send_signal(signal.SIGTERM)
        rest = await asyncio.wait_for(client.reader.read(), 5)
        assert rest.endswith(b"0\r\n\r\n")  # the last chunk: an orderly end, not a broken connection
        server.process.wait(5)
        client.vanish()


class TestPlaces:
    async def test_a_merchant_with_too_many_streams_is_refused_before_anything_is_sent(self, servers):
        server = servers(per_merchant_max=2)
        held = [await Client(server.port).opened() for _ in range(2)]
        refused = await Client(server.port).connect()
        assert refused.head.startswith("HTTP/1.1 429")
        other = await Client(server.port, merchant="other").opened()
        for client in [*held, refused, other]:
            client.vanish()

    async def test_a_client_that_leaves_frees_its_place_at_once(self, servers):
        server = servers(max_connections=1)
        client = await Client(server.port).opened()
        assert await server.metric("gateway_sse_active_connections") == 1
        client.vanish()
        assert await server.metric_becomes("gateway_sse_active_connections", 0, seconds=1)
        again = await Client(server.port).opened()
        again.vanish()


class TestSlowReaders:
    async def test_a_client_that_stops_reading_costs_bounded_memory_and_nobody_else_anything(self, servers, world):
        server = servers()
        slow, quick = await Client(server.port).opened(), await Client(server.port).opened()
        slow.writer.transport.pause_reading()
        resident = psutil.Process(server.process.pid).memory_info().rss
        for start in range(0, 2000, 50):  # 40 MB in all
            await world.publisher.publish(_heavy(range(start, start + 50)))
            assert len(await quick.frames(50)) == 50
        grown = psutil.Process(server.process.pid).memory_info().rss - resident
        assert grown < 20 * 2**20
        assert await server.metric("gateway_sse_queue_overflow_total") > 1000
        slow.vanish()
        assert await server.metric_becomes("gateway_sse_active_connections", 1)
        quick.vanish()

    async def test_a_client_that_reads_nothing_for_long_is_let_go(self, servers, world):
        server = servers(stall_sec=0.5)
        slow = await Client(server.port).opened()
        slow.writer.transport.pause_reading()
        let_go = False
        for start in range(0, 5000, 50):  # the system's own buffers take several MB before a write waits
            await world.publisher.publish(_heavy(range(start, start + 50)))
            let_go = await server.metric_becomes("gateway_sse_active_connections", 0, seconds=0.1)
            if let_go:
                break
        slow.vanish()
        assert let_go


def _heavy(numbers):
    return [StreamEvent(number, (JOB,), "page_completed", {"n": number, "text": "x" * 20_000}) for number in numbers]
