"""Event streams with 1,000 clients on one server process, against a bare socket server writing the same frames.

Latency: single events, from just before `publish` to each client's socket. Throughput: bursts of events,
until the last client has the last one. Server, Redis and PostgreSQL are processes of their own; the clients
share this one and cost the same in both runs.
"""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import uvloop

from bench.servers import free_ports
from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.redis import Keys, connect
from penstock.kernel.streams import StreamEvent, StreamPublisher, StreamSettings

CONNECTIONS, SINGLES, BURSTS, BURST = 1000, 40, 8, 50
TOPIC = "dashboard"
_STAMP = re.compile(rb'"ts":([0-9.]+)')


class Listener(asyncio.Protocol):
    """Counts events and notes when each arrived."""

    def __init__(self, board: "Board") -> None:
        self._board = board

    def connection_made(self, transport: Any) -> None:
        transport.write(f"GET /events/{TOPIC} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if b"event: snapshot" in data:
            self._board.ready += 1
        for stamp in _STAMP.findall(data):
            self._board.arrived.append(now - float(stamp))
        if len(self._board.arrived) >= self._board.wanted:
            self._board.complete.set()


class Board:
    """What all listeners saw."""

    def __init__(self) -> None:
        self.ready = 0
        self.arrived: list[float] = []
        self.wanted = 0
        self.complete = asyncio.Event()

    def expect(self, deliveries: int) -> None:
        self.arrived, self.wanted = [], deliveries
        self.complete.clear()


class StreamSource:
    """Announces through Redis, as the relay does."""

    def __init__(self, publisher: StreamPublisher) -> None:
        self._publisher = publisher
        self._number = 0

    async def send(self, count: int) -> None:
        ts = time.monotonic()
        first, self._number = self._number, self._number + count
        events = [StreamEvent(first + n, (TOPIC,), "page_completed", {"page_no": n, "ts": ts}) for n in range(count)]
        await self._publisher.publish(events)


class BareSource:
    """Tells the bare server, over one socket, how many frames to write."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, count: int) -> None:
        self._writer.write(f"{count}\n".encode())
        await self._writer.drain()


async def _measure(port: int, source: StreamSource | BareSource) -> dict[str, float]:
    board, loop = Board(), asyncio.get_running_loop()
    listeners = []
    for _ in range(0, CONNECTIONS, 50):
        batch = [loop.create_connection(lambda: Listener(board), "127.0.0.1", port) for _ in range(50)]
        listeners += await asyncio.gather(*batch)
    async with asyncio.timeout(30):
        while board.ready < CONNECTIONS:  # noqa: ASYNC110  the listeners only count
            await asyncio.sleep(0.05)
    await asyncio.sleep(1)  # idle, as most are
    latencies: list[float] = []
    for _ in range(SINGLES):
        await _round(board, source, 1)
        latencies += board.arrived
        await asyncio.sleep(0.05)
    began = time.monotonic()
    for _ in range(BURSTS):
        await _round(board, source, BURST)
    rate = BURSTS * BURST * CONNECTIONS / (time.monotonic() - began)
    for transport, _ in listeners:
        transport.abort()
    latencies.sort()
    return {
        "p50_ms": round(latencies[len(latencies) // 2] * 1000, 1),
        "p99_ms": round(latencies[len(latencies) * 99 // 100] * 1000, 1),
        "events_per_s": round(rate),
    }


async def _round(board: Board, source: StreamSource | BareSource, count: int) -> None:
    board.expect(count * CONNECTIONS)
    await source.send(count)
    async with asyncio.timeout(30):
        await board.complete.wait()


async def _measure_ours(port: int, redis_url: str, pid: int) -> dict[str, float]:
    redis = connect(redis_url)
    figures = await _measure(port, StreamSource(StreamPublisher(redis, Keys(), StreamSettings())))
    await redis.aclose()
    return {**figures, "rss_mb": psutil.Process(pid).memory_info().rss >> 20}


async def _measure_bare(port: int) -> dict[str, float]:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"SOURCE\n")
    figures = await _measure(port, BareSource(writer))
    writer.close()
    return figures


def _started(role: str, port: int, *addresses: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, __file__, role, str(port), *addresses], env=_environment())
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    raise RuntimeError(f"the {role} server did not start")


def _environment() -> dict[str, str]:
    root = Path(__file__).parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}


def _allow_sockets() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 3 * CONNECTIONS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(3 * CONNECTIONS, hard), hard))


def run() -> dict[str, Any]:
    _allow_sockets()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        postgres, redis = EmbeddedPostgres(Path(name)), EmbeddedRedis(Path(name))
        postgres.start()
        redis.start()
        port, bare_port = free_ports(2)
        servers = [_started("ours", port, postgres.url, redis.url), _started("bare", bare_port)]
        try:
            ours = uvloop.run(_measure_ours(port, redis.url, servers[0].pid))
            bare = uvloop.run(_measure_bare(bare_port))
        finally:
            for server in servers:
                server.send_signal(signal.SIGKILL)
                server.wait()
            redis.stop()
            postgres.stop()
    ratios = {"vs_raw": round(ours["events_per_s"] / bare["events_per_s"], 3)}
    figures = {
        "connections": CONNECTIONS,
        **ours,
        "raw_p99_ms": bare["p99_ms"],
        "raw_events_per_s": bare["events_per_s"],
    }
    return {"name": "sse", "ratios": ratios, "figures": figures}


# --- the two servers, each in a process of its own ---------------------------------------------------------
async def _serve_ours(port: int, database_url: str, redis_url: str) -> None:
    from fastapi import FastAPI, Response
    from granian.constants import Interfaces
    from granian.server.embed import Server

    from penstock.api.sse import event_stream
    from penstock.kernel.clock import SystemClock
    from penstock.kernel.db import Database
    from penstock.kernel.streams import Request, Snapshots, StreamHub, StreamReader

    async def nothing(tx: Any, topic: str) -> dict[str, Any]:  # noqa: ARG001  the signature of providers
        return {}

    settings, database = StreamSettings(), Database(database_url, name="bench")
    await database.open()
    snapshots = Snapshots(database, {TOPIC: nothing})
    hub = StreamHub(StreamReader(connect(redis_url), Keys(), settings), snapshots, settings, SystemClock())
    hub.start()
    app = FastAPI()

    @app.get("/events/{topic}")
    async def events(topic: str) -> Response:
        return event_stream(hub.subscribe(Request(topic)))

    # granian admits `backpressure` connections at once, and by default no more than its `backlog` of 128
    server = Server(app, port=port, interface=Interfaces.ASGI, backlog=1024, backpressure=2048, log_enabled=False)
    await server.serve()


async def _serve_bare(port: int) -> None:
    clients: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readline()
        if first == b"SOURCE\n":
            while line := await reader.readline():
                _write_frames(clients, int(line))
        if not first.startswith(b"GET"):
            writer.close()
            return
        clients.append(writer)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nretry: 5000\n\nevent: snapshot\ndata: {}\n\n")

    await (await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)).serve_forever()


def _write_frames(clients: list[asyncio.StreamWriter], count: int) -> None:
    data = f'{{"page_no":1,"ts":{time.monotonic()},"event_id":1}}'
    frames = f"id: 1794716088319-0-e8b92cfc\nevent: page_completed\ndata: {data}\n\n".encode() * count
    for client in clients:
        client.write(frames)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ours", port, database_url, redis_url]:
            uvloop.run(_serve_ours(int(port), database_url, redis_url))
        case ["bare", port]:
            uvloop.run(_serve_bare(int(port)))
        case _:
            sys.stdout.write(json.dumps(run(), indent=2) + "\n")
