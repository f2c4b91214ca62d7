"""Limits how much is done at once, in all and for one merchant: whoever asks a lot waits for itself first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class MerchantTurns:
    """A merchant's requests queue among themselves; only `per_merchant` of them stand in the queue of all."""

    def __init__(self, at_once: int, per_merchant: int) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._per_merchant = per_merchant
        self._own: dict[str | None, tuple[asyncio.Semaphore, int]] = {}  # with how many hold it or wait for it

    @asynccontextmanager
    async def turn(self, merchant: str | None) -> AsyncIterator[None]:
        own, users = self._own.get(merchant) or (asyncio.Semaphore(self._per_merchant), 0)
        self._own[merchant] = own, users + 1
        try:
            async with own, self._all:
                yield
        finally:
            users = self._own[merchant][1] - 1
            if users:
                self._own[merchant] = own, users
            else:
                del self._own[merchant]
