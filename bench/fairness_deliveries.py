"""What one merchant's worst does to another's webhooks, live events and documents: p95, quiet and under attack.

    python -m bench.fairness_deliveries [webhooks] [relay] [streams] [etl]

Everything runs in one process beside a private PostgreSQL and Redis, so figures are of the queues, not of the machine.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from statistics import quantiles

from bench import servers
from penstock.bootstrap import Parts, load_settings, started
from penstock.kernel import json, webhooks
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.webhooks import Registration
from penstock.worker import run_worker

_LOUD, _QUIET = "loud", "quiet"
_LONGEST_SECONDS = 60.0
_numbers = count()


class Receiver:
    """Answers `/hook` at once and remembers when it heard of an entity; whatever comes to `/hang` waits for ever."""

    def __init__(self) -> None:
        self.heard: dict[str, asyncio.Event] = {}
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST /hang"):
            await reader.read()
            writer.close()
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        entity = json.loads(await reader.readexactly(length))["entity"]["id"]
        self.heard.setdefault(entity, asyncio.Event()).set()
        writer.write(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n")
        writer.close()


class Stage:
    """A worker and a relay at work, and a receiver of webhooks."""

    def __init__(self, parts: Parts, receiver: Receiver) -> None:
        self.parts = parts
        self.receiver = receiver

    async def register(self, merchant: str, path: str) -> None:
        async with self.parts.database.transaction() as tx:
            await webhooks.register(tx, Registration(merchant, self.receiver.url + path, ("job.*",), "bench"))

    async def happen(self, merchant: str, times: int = 1, **more: object) -> str:
        """Events of so many entities; the name of the last."""
        names = [f"{merchant}-{next(_numbers)}" for _ in range(times)]
        async with self.parts.database.transaction() as tx:
            await announce(
                tx,
                *(Event("job.made", "job", name, {}, merchant_id=merchant, **more) for name in names),  # type: ignore[arg-type]
            )
        return names[-1]

    async def webhook_seconds(self) -> float:
        began = time.monotonic()
        name = await self.happen(_QUIET)
        return await _within(self.receiver.heard.setdefault(name, asyncio.Event()).wait(), began)


async def _within(waiting: Awaitable[object], began: float) -> float:
    """Seconds until it came, or the longest that is waited for."""
    try:
        await asyncio.wait_for(waiting, _LONGEST_SECONDS)
    except TimeoutError:
        return _LONGEST_SECONDS
    return time.monotonic() - began


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    receiver, stop = Receiver(), asyncio.Event()
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0, backlog=1000)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with started(load_settings(), role="worker") as parts:
        parts.hub.start()
        running = [asyncio.create_task(run_worker(parts, stop)), asyncio.create_task(parts.relay().run(stop))]
        try:
            yield Stage(parts, receiver)
        finally:
            stop.set()
            await asyncio.gather(*running)
            await parts.hub.close()
            server.close()


# One merchant's worst ----------------------------------------------------------------------------------------------
async def hang_webhooks(here: Stage) -> None:
    """Fifty endpoints that accept and never answer, and twelve events for each of them."""
    for _ in range(webhooks.MOST_ENDPOINTS):
        await here.register(_LOUD, "/hang")
    await here.happen(_LOUD, 12)


async def flood_outbox(here: Stage) -> None:
    """Two hundred events a second, as of a merchant whose documents have many pages."""
    while True:
        await here.happen(_LOUD, 20)
        await asyncio.sleep(0.1)


# Places ------------------------------------------------------------------------------------------------------------
async def _webhooks(here: Stage) -> None:
    await here.register(_QUIET, "/hook")
    await _compare("webhooks: 50 endpoints that hang", here.webhook_seconds, lambda: hang_webhooks(here))


async def _relay(here: Stage) -> None:
    await here.register(_QUIET, "/hook")
    await _compare("relay: 200 events a second", here.webhook_seconds, lambda: flood_outbox(here))


async def _compare(place: str, once: Callable[[], Awaitable[float]], attack: Callable[[], Awaitable[None]]) -> None:
    await once()
    quiet = [await once() for _ in range(20)]
    attacking = asyncio.create_task(attack())
    await asyncio.sleep(2)
    attacked = []
    while len(attacked) < 20 and sum(attacked) < _LONGEST_SECONDS:
        attacked.append(await once())
    attacking.cancel()
    await asyncio.gather(attacking, return_exceptions=True)
    before, after = _p95(quiet), _p95(attacked)
    print(f"{place}: p95 {before:.3f} s quiet, {after:.3f} s under attack, ratio {after / before:.1f}", flush=True)


def _p95(seconds: list[float]) -> float:
    return quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]


_PLACES = {"webhooks": _webhooks, "relay": _relay}


async def _main(name: str) -> None:
    async with stage() as here:
        await _PLACES[name](here)


if __name__ == "__main__":
    for place in sys.argv[1:] or _PLACES:
        with servers.postgres() as database, servers.redis() as redis, tempfile.TemporaryDirectory() as home:
            os.environ |= {
                "PENSTOCK_DATABASE_URL": database, "PENSTOCK_REDIS_URL": redis, "PENSTOCK_STORE_URL": f"file://{home}",
                "PENSTOCK_JWT_SECRET": "s" * 32, "PENSTOCK_WEBHOOK_ALLOW_PRIVATE": "true",
                "PENSTOCK_SHUTDOWN_SECONDS": "2",
            }  # fmt: skip
            asyncio.run(_main(place))
