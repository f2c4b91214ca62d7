"""How long the event loop of a test worked without answering, in CPU time: a busy machine does not count."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

_EVERY = 0.01


@dataclass
class Lag:
    """CPU seconds of the loop's thread between two ticks, the longest."""

    own: float = 0.0


@asynccontextmanager
async def watched_loop() -> AsyncIterator[Lag]:
    lag = Lag()

    async def tick() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(_EVERY)
            now = time.thread_time()
            lag.own, last = max(lag.own, now - last), now

    ticking = asyncio.create_task(tick())
    try:
        yield lag
        await asyncio.sleep(2 * _EVERY)  # the last gap is seen too
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
