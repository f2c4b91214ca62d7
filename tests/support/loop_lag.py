"""How long the event loop of a test did not answer, beyond what the whole machine stood still."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

_EVERY = 0.01


@dataclass
class Lag:
    """Seconds between two ticks, the longest: of the event loop, and of a thread that only waits."""

    loop: float = 0.0
    thread: float = 0.0

    @property
    def own(self) -> float:
        """A busy machine holds up both; work on the loop holds up the loop."""
        return self.loop - self.thread


@asynccontextmanager
async def watched_loop() -> AsyncIterator[Lag]:
    lag, stop = Lag(), threading.Event()

    def tick_in_thread() -> None:
        last = time.monotonic()
        while not stop.wait(_EVERY):
            now = time.monotonic()
            lag.thread, last = max(lag.thread, now - last), now

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(_EVERY)
            now = time.monotonic()
            lag.loop, last = max(lag.loop, now - last), now

    thread = threading.Thread(target=tick_in_thread)
    thread.start()
    ticking = asyncio.create_task(tick())
    try:
        yield lag
        await asyncio.sleep(2 * _EVERY)  # the last gap is seen too
    finally:
        ticking.cancel()
        stop.set()
        await asyncio.to_thread(thread.join)
