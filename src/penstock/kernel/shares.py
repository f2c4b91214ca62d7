"""Shares of something that all tenants use, so that none of them takes all of it.

A request that has said on whose behalf it runs (`ON_BEHALF_OF`) holds one unit of its owner's share; when the share is
used up it waits for its own owner's units, first come first served, for a limited time. Work without an owner, such as
a worker's or a batch of several tenants' rows, is not limited here.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

ON_BEHALF_OF: ContextVar[str | None] = ContextVar("on_behalf_of", default=None)  # a merchant


class Shares:
    """At most `most` units for one owner. `name` says in a refusal what there is too little of."""

    def __init__(self, name: str, most: int, wait_seconds: float) -> None:
        self._name, self._most, self._wait_seconds = name, most, wait_seconds
        self._free: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def one_unit(self) -> AsyncIterator[None]:
        """RATE_LIMITED when the owner's other requests hold all of its units for too long."""
        owner = ON_BEHALF_OF.get()
        if owner is None:
            yield
            return
        free = self._free.setdefault(owner, asyncio.Semaphore(self._most))
        self._users[owner] = self._users.get(owner, 0) + 1
        try:
            await self._wait(free)
            try:
                yield
            finally:
                free.release()
        finally:
            self._users[owner] -= 1
            if not self._users[owner]:
                del self._users[owner], self._free[owner]

    async def _wait(self, free: asyncio.Semaphore) -> None:
        if not free.locked():
            await free.acquire()
            return
        try:
            async with asyncio.timeout(self._wait_seconds):
                await free.acquire()
        except TimeoutError:
            raise PenstockError(error_codes.RATE_LIMITED, scope=self._name, retry_after=1.0) from None
