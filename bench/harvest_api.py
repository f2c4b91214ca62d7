"""A source to harvest from, in a process of its own: as many records as asked for, made page by page.

Record k of a source is the same whenever it is read: its content is k modulo 1,000 of a template, its id counts up
and it was updated k seconds after the first. Records have one width, so a page is the template turned to its first
record, with the digits of ids and instants written over it column by column: memory stays the same for any number.
"""

import argparse
import asyncio
import base64
import json
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
WIDTH, PAGE = 1536, 1000
_ID, _INSTANT = "10.5555/harvest.000000000", "2024-01-01T00:00:00Z"
_TEXT = (
    "protein cell gene patient trial acute chronic model network neural surface quantum thermal rate response study "
    "cohort risk factor outcome analysis method sample tissue signal pathway binding receptor inhibitor dose therapy "
    "climate soil water carbon energy storage catalyst polymer crystal phase field theory graph learning estimate"
)
_WORDS = _TEXT.split()


def instant(number: int) -> str:
    return (EPOCH + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def window(first: int, count: int) -> dict[str, str]:
    """What asks for exactly these records; both ends are included."""
    return {"from": instant(first), "until": instant(first + count - 1)}


def windows(count: int, parts: int) -> list[dict[str, str]]:
    edges = [count * part // parts for part in range(parts + 1)]
    return [window(low, high - low) for low, high in pairwise(edges)]


def _record(chance: random.Random) -> bytes:
    def words(count: int) -> str:
        return " ".join(chance.choices(_WORDS, k=count))

    authors = [
        {
            "given": chance.choice(_WORDS).title(),
            "family": chance.choice(_WORDS).title(),
            "sequence": "additional" if place else "first",
            "affiliation": [{"name": f"Institute of {words(2).title()}"}],
        }
        for place in range(chance.randint(2, 4))
    ]
    record = {
        "id": _ID, "updated": _INSTANT, "type": "journal-article", "title": [words(9).capitalize()], "author": authors,
        "container-title": [words(3).title()], "publisher": words(2).title(), "volume": str(chance.randint(1, 90)),
        "issued": {"date-parts": [[chance.randint(1990, 2024), chance.randint(1, 12)]]},
        "is-referenced-by-count": chance.randint(0, 900), "subject": chance.sample(_WORDS, 3), "abstract": "",
    }  # fmt: skip
    room = WIDTH - 1 - len(json.dumps(record, separators=(",", ":")))
    record["abstract"] = words(room)[:room]
    return json.dumps(record, separators=(",", ":")).encode() + b","


class Pages:
    """The records from `first` to before `last` as the inside of a JSON array."""

    def __init__(self) -> None:
        chance = random.Random(20)
        self._template = b"".join(_record(chance) for _ in range(PAGE))
        if len(self._template) != WIDTH * PAGE:
            raise RuntimeError("the records of the template differ in width")
        self._id = self._template.index(_ID.encode()) + len(_ID) - 9
        self._instant = self._template.index(_INSTANT.encode())

    def items(self, first: int, last: int) -> bytearray:
        turn, size = first % PAGE * WIDTH, (last - first) * WIDTH
        page = bytearray(self._template[turn : turn + size])
        page += self._template[: size - len(page)]
        ids = "".join([f"{number:09d}" for number in range(first, last)]).encode()
        for column in range(9):
            page[self._id + column :: WIDTH] = ids[column::9]
        self._write_instants(page, first, last)
        del page[-1:]
        return page

    def _write_instants(self, page: bytearray, first: int, last: int) -> None:
        begin = int(EPOCH.timestamp()) + first
        instants = "".join([time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begin + n)) for n in range(last - first)])
        width, encoded = len(_INSTANT), instants.encode()
        for column in range(width):
            page[self._instant + column :: WIDTH] = encoded[column::width]


@dataclass
class Source:
    """The records, the limit, and what was asked. The bucket refills steadily and holds `burst` requests."""

    items: int
    rate: float = 0.0
    burst: float = 1.0
    latency: float = 0.0
    pages: Pages = field(default_factory=Pages)
    requests: int = 0
    refused: int = 0
    repeated: int = 0
    served: set[tuple[int, int]] = field(default_factory=set)
    tokens: float = 0.0
    refilled: float = 0.0

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.requests = self.refused = self.repeated = 0
        self.served, self.tokens, self.refilled = set(), self.burst, time.monotonic()

    def counts(self) -> dict[str, int]:
        return {
            "requests": self.requests,
            "refused": self.refused,
            "pages": len(self.served),
            "pages_again": self.repeated,
        }

    def wait(self) -> float:
        """Seconds until another request is allowed; 0 takes it."""
        if not self.rate:
            return 0.0
        now = time.monotonic()
        self.tokens = min(self.burst, self.tokens + (now - self.refilled) * self.rate)
        self.refilled = now
        if self.tokens < 1:
            return (1 - self.tokens) / self.rate
        self.tokens -= 1
        return 0.0

    def page(self, query: dict[str, str]) -> list[bytes | bytearray]:
        low, high = self._bounds(query)
        cursor = query.get("cursor", "*")
        first = low if cursor == "*" else int(base64.urlsafe_b64decode(cursor)[2:])
        rows = min(int(query.get("rows", PAGE)), PAGE)
        last = max(min(first + rows, high), first)
        if rows:
            self.repeated += (first, last) in self.served
            self.served.add((first, last))
        following = f'"{base64.urlsafe_b64encode(b"c:%d" % last).decode()}"' if last < high else "null"
        head = f'{{"status":"ok","message":{{"total-results":{max(high - low, 0)},"next-cursor":{following},"items":['
        return [head.encode(), self.pages.items(first, last) if last > first else b"", b"]}}"]

    def _bounds(self, query: dict[str, str]) -> tuple[int, int]:
        low = _number(query["from"]) if "from" in query else 0
        high = _number(query["until"]) + 1 if "until" in query else self.items
        return max(low, 0), min(high, self.items)


def _number(text: str) -> int:
    return int((datetime.fromisoformat(text) - EPOCH).total_seconds())


class Conversation(asyncio.Protocol):
    """One connection, kept alive: a request line and headers in, one answer out."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            self._answer(head.split(b" ", 2)[1].decode())

    def _answer(self, target: str) -> None:
        address = urlsplit(target)
        match address.path:
            case "/works":
                self._works(dict(parse_qsl(address.query)))
            case "/counts":
                self._send(200, [json.dumps(self._source.counts()).encode()])
            case "/forget":
                self._source.forget()
                self._send(200, [b"{}"])
            case _:
                self._send(404, [b'{"status":"failed"}'])

    def _works(self, query: dict[str, str]) -> None:
        source = self._source
        source.requests += 1
        if wait := source.wait():
            source.refused += 1
            self._send(429, [b'{"status":"failed"}'], f"Retry-After: {int(wait) + 1}\r\n")
            return
        try:
            parts = source.page(query)
        except ValueError as failure:
            self._send(400, [json.dumps({"status": "failed", "message": str(failure)}).encode()])
            return
        if source.latency:
            asyncio.get_running_loop().call_later(source.latency, self._send, 200, parts)
        else:
            self._send(200, parts)

    def _send(self, status: int, parts: list[bytes | bytearray], headers: str = "") -> None:
        head = f"HTTP/1.1 {status} .\r\nContent-Type: application/json\r\n{headers}"
        length = sum(len(part) for part in parts)
        if not self._transport.is_closing():
            self._transport.writelines([f"{head}Content-Length: {length}\r\n\r\n".encode(), *parts])


async def _serve(port: int, source: Source) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Conversation(source), "127.0.0.1", port)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


@dataclass(frozen=True)
class Running:
    """The source as its users see it."""

    url: str
    port: int
    pid: int

    def counts(self) -> dict[str, int]:
        return json.loads(self._get("/counts"))

    def forget(self) -> None:
        self._get("/forget")

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url.removesuffix("/works") + path) as answer:
            return answer.read()


@contextmanager
def running(items: int, *, rate: float = 0, burst: float = 1, latency: float = 0) -> Iterator[Running]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = {"items": items, "rate": rate, "burst": burst, "latency": latency, "port": port}
    command = [sys.executable, __file__, *(f"--{name}={value}" for name, value in options.items())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the source did not start")
            yield Running(f"http://127.0.0.1:{port}/works", port, process.pid)
        finally:
            process.kill()


def read_all(source: Running, items: int) -> float:
    """Records per second that a client gets which looks at nothing but the next cursor."""
    asked, cursor, read = window(0, items), "*", 0
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    buffer = bytearray(4 << 20)
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", source.port)) as connection:
        while cursor:
            connection.sendall(f"GET /works?rows={PAGE}&{query}&cursor={cursor} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            body = _receive(connection, buffer)
            read += body.count(b'"journal-article"')
            found = body[: body.index(b'"items"')].split(b'"next-cursor":')[1]
            cursor = found.strip(b'",').decode().removeprefix("null")
    if read != items:
        raise RuntimeError(f"the source served {read} of {items} records")
    return items / (time.perf_counter() - begun)


def _receive(connection: socket.socket, buffer: bytearray) -> bytes:
    got, expected, view = 0, 0, memoryview(buffer)
    while not expected or got < expected:
        got += connection.recv_into(view[got:])
        if not expected and (end := buffer.find(b"\r\n\r\n", 0, got)) > 0:
            length = bytes(view[:end]).lower().split(b"content-length:")[1].split(b"\r\n")[0]
            expected = end + 4 + int(length)
    return bytes(view[:expected])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--items", type=int, default=2_000_000)
    options.add_argument("--rate", type=float, default=0, help="requests a second; 0: no limit")
    options.add_argument("--burst", type=float, default=1)
    options.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    given = options.parse_args()
    try:
        from uvloop import run as run_loop
    except ImportError:
        from asyncio import run as run_loop
    run_loop(_serve(given.port, Source(given.items, given.rate, given.burst, given.latency)))
