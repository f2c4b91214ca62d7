"""Shares a fixed number of places between tenants.

A tenant that waits gets the next free place if it holds fewer than the others who wait; among equals they take turns,
and within a tenant it is first come, first served. One place on top is kept for a tenant that holds none: whatever one
tenant does, and however long each of its calls takes, another's first call begins at once. So with N places and one
greedy tenant, N of its calls run, and every other tenant has still a place to itself.
"""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairPlaces:
    """So many places, and one more for a tenant without any."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._served: dict[str, int] = {}  # when each tenant that waits or holds was last given a place
        self._turn = itertools.count(1)
        self._closed: BaseException | None = None

    @asynccontextmanager
    async def hold(self, tenant: str) -> AsyncIterator[int]:
        """Waits for a place and keeps it; yields how many the tenant held already."""
        await self._take(tenant)
        try:
            yield self._held[tenant] - 1
        finally:
            self._give_back(tenant)

    def close(self, reason: BaseException) -> None:
        """Refuses all who wait, and all who come later."""
        self._closed = reason
        for line in self._waiting.values():
            for turn in line:
                if not turn.done():
                    turn.set_exception(reason)
        self._waiting.clear()

    async def _take(self, tenant: str) -> None:
        if self._closed is not None:
            raise self._closed
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_back(tenant)  # granted in the moment of giving up
            raise

    def _give_back(self, tenant: str) -> None:
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
            if tenant not in self._waiting:
                self._served.pop(tenant, None)
        self._serve()

    def _serve(self) -> None:
        while (tenant := self._next()) is not None:
            line = self._waiting[tenant]
            turn = line.popleft()
            if not line:
                del self._waiting[tenant]
            if not turn.done():
                self._held[tenant] += 1
                self._served[tenant] = next(self._turn)
                turn.set_result(None)

    def _next(self) -> str | None:
        if not self._waiting:
            return None
        tenant = min(self._waiting, key=lambda each: (self._held[each], self._served.get(each, 0)))
        free = self._places - self._held.total()
        may = free > 0 or (free == 0 and not self._held[tenant])
        return tenant if may else None
