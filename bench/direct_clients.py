"""The cheapest clients there are, so that the servers are measured and not they; and how their times are told."""

import asyncio
import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self


class HttpClient:
    """One kept connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, method: str, target: str, headers: dict[str, str], *body: bytes | memoryview) -> "Answer":
        length = sum(len(piece) for piece in body)
        told = {"host": f"127.0.0.1:{self._port}", "content-length": str(length), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self._writer.writelines([f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode(), *body])
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        said = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        content = await self._reader.readexactly(int(said.get("content-length", 0)))
        return Answer(int(head[0].split(" ")[1]), said, content)


@dataclass(frozen=True)
class Answer:
    """To one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    def expect(self, *statuses: int) -> "Answer":
        if self.status not in statuses:
            raise RuntimeError(f"answered {self.status}: {self.body[:500]!r}")
        return self


@dataclass(frozen=True)
class Times:
    """Of one round: the whole, and each call."""

    seconds: float
    each: Sequence[float]

    @property
    def per_second(self) -> float:
        return len(self.each) / self.seconds

    def ms(self, share: float) -> float:
        return percentile(self.each, share) * 1000


async def at_once(workers: int, calls: int, call: Callable[[int, int], Awaitable[Any]]) -> Times:
    """So many calls by so many workers, each of which waits for its answer; `call(worker, number)`."""
    left = iter(range(calls))
    each: list[float] = []

    async def work(worker: int) -> None:
        for number in left:
            begun = time.perf_counter()
            await call(worker, number)
            each.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(work(worker) for worker in range(workers)))
    return Times(time.perf_counter() - begun, each)


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def md5_of(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
