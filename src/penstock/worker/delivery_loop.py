"""Keeps deliveries going in a worker: looks when it is poked, and every second in case a wake-up was lost.

A look never waits for an earlier one, so what is due now is not held up by calls that take long.
"""

import asyncio
import time

import psycopg
import structlog

from penstock.kernel.deliveries import Deliveries
from penstock.kernel.errors import PenstockError, raise_unless_unavailable

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0


class DeliveryLoop:
    """One per worker."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._awake = asyncio.Event()
        self._expire_at = 0.0

    def poke(self) -> None:
        """Something is due."""
        self._awake.set()

    def hand_back(self) -> None:
        self._deliveries.hand_back()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop, then finish what is in hand."""
        stopping = asyncio.create_task(self._poke_at(stop))
        try:
            async with asyncio.TaskGroup() as looks:
                while not stop.is_set():
                    looks.create_task(self._look(stop))
                    await self._pause()
        finally:
            stopping.cancel()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._awake.wait()
        except TimeoutError:
            return
        self._awake.clear()

    async def _poke_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.poke()

    async def _look(self, stop: asyncio.Event) -> None:
        try:
            if time.monotonic() >= self._expire_at:
                self._expire_at = time.monotonic() + _LOOK_SECONDS
                await self._deliveries.free_expired()
            await self._deliveries.drain(stop)
        except PenstockError as away:
            raise_unless_unavailable(away)
            log.warning("worker.waiting", reason=str(away))
        except psycopg.Error:  # a row that cannot be served must not end the role
            log.exception("worker.stumbled")
