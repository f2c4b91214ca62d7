"""The loop of a worker that looks after uploads: as many at once as the settings allow, none of them twice."""

import asyncio

import psycopg
import structlog

from penstock.kernel import leases
from penstock.kernel.backoff import exponential
from penstock.kernel.errors import PenstockError, raise_unless_unavailable, reason_of
from penstock.kernel.leases import Lease
from penstock.uploads.direct.attending import DUE, attend_one
from penstock.uploads.direct.desk import DirectDesk

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0


class Attendant:
    """One per worker process. `poke` says that something is due; `hand_back` cuts short what is in hand."""

    def __init__(self, desk: DirectDesk) -> None:
        self._desk = desk
        self._running: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    def poke(self) -> None:
        self._news.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; what is in hand is finished."""
        stopping = asyncio.create_task(self._pass_on(stop))
        trouble = 0
        try:
            while not stop.is_set():
                self._news.clear()
                try:
                    await self._begin_due()
                    trouble = 0
                except PenstockError as away:
                    raise_unless_unavailable(away)
                    trouble += 1
                    log.warning("direct.waiting", reason=str(away))
                except psycopg.Error:  # a row that cannot be served must not end the role
                    trouble += 1
                    log.exception("direct.stumbled")
                await self._wait(exponential(trouble, first=_LOOK_SECONDS, most=10.0) if trouble else _LOOK_SECONDS)
            while self._running:
                await asyncio.wait(self._running)
        finally:
            stopping.cancel()
            self.hand_back()
            await asyncio.gather(stopping, *self._running, return_exceptions=True)

    def hand_back(self) -> None:
        for task in self._running:
            task.cancel()

    async def _begin_due(self) -> None:
        places = self._desk.settings.attend_at_once - len(self._running)
        if places <= 0:
            return
        async with self._desk.database.statement() as tx:
            claimed = await leases.claim(
                tx, DUE, owner=self._desk.owner, ttl=self._desk.settings.lease_seconds, limit=places
            )
        for lease in claimed:
            task = asyncio.create_task(self._attend(lease), name=f"direct upload {lease.key}")
            self._running.add(task)
            task.add_done_callback(self._is_over)

    async def _attend(self, lease: Lease) -> None:
        try:
            await attend_one(self._desk, lease)
        except (PenstockError, psycopg.Error) as trouble:  # its lease runs out, and somebody looks again
            log.warning("direct.not_settled", upload=str(lease.key), reason=reason_of(trouble))

    def _is_over(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._news.set()  # a place is free

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _pass_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._news.set()
