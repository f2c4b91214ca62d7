"""Keeps a number of things going at once: claims more as places become free, until there is nothing to claim.

One slow item holds one place, never the others. Asked again while it runs, a pump looks at once if it has a free place,
and once more before it ends: a wake-up neither waits for slow items nor is lost in the last moment.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVarTuple

Item = TypeVarTuple("Item")


class Pump(Generic[*Item]):
    """`claim(n)` takes up to n items, `work(*item)` does one."""

    def __init__(
        self,
        claim: Callable[[int], Awaitable[list[tuple[*Item]]]],
        work: Callable[[*Item], Awaitable[None]],
        places: int,
    ) -> None:
        self._claim = claim
        self._work = work
        self._places = places
        self._running = False
        self._asked_again = asyncio.Event()
        self._busy: set[asyncio.Task[None]] = set()

    def cancel(self) -> None:
        """End what is in hand; `drain` then returns, if it was told to stop."""
        for task in self._busy:
            task.cancel()

    async def drain(self, stop: asyncio.Event | None = None) -> int:
        """Work until nothing can be claimed; a failure ends it after what is in hand. Returns how many were done."""
        if self._running:
            self._asked_again.set()
            return 0
        self._running = True
        try:
            return await self._turn(stop)
        finally:
            if self._busy:
                await asyncio.gather(*self._busy, return_exceptions=True)
            self._busy.clear()
            self._running = False

    async def _turn(self, stop: asyncio.Event | None) -> int:
        done = 0
        busy = self._busy
        while True:
            self._asked_again.clear()
            free = 0 if stop and stop.is_set() else self._places - len(busy)
            claimed = await self._claim(free) if free else []
            busy |= {asyncio.ensure_future(self._work(*item)) for item in claimed}
            if not busy:
                if self._asked_again.is_set():
                    continue
                return done
            finished = await self._first_finished(listens=free > len(claimed))
            busy -= finished
            done += len(finished)
            for task in finished:
                if not task.cancelled():
                    task.result()

    async def _first_finished(self, *, listens: bool) -> set[asyncio.Task[None]]:
        """What has ended first; nothing if the pump is asked again before, and `listens`."""
        asked = asyncio.ensure_future(self._asked_again.wait()) if listens else None
        try:
            ended, _ = await asyncio.wait({*self._busy, *({asked} if asked else ())}, return_when="FIRST_COMPLETED")
        finally:
            if asked:
                asked.cancel()
        return self._busy & ended
