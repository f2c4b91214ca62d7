"""One part of a document, from submitting it to having its result in a file.

Killed anywhere, the next attempt finds the ticket in the notes and goes on looking: a part is submitted once. It is
submitted again only when the service has lost it or failed at it, each a few times at most. What stays wrong leaves
as an error; TooManyPages and FamilyChanged are the provider's to deal with.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from penstock.extraction.ports import Notebook
from penstock.extraction.providers.mineru.family import Family, Look, Order, Ticket
from penstock.extraction.providers.mineru.notes import Notes
from penstock.extraction.providers.mineru.parcel import Parcel, open_parcel
from penstock.extraction.providers.mineru.refusals import (
    FileMissing,
    LinkDead,
    ParseFailed,
    TaskLost,
    ZipDamaged,
    not_understood,
    refused,
    unavailable,
)
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.kernel import error_codes, failpoints
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError

log = structlog.get_logger(__name__)
_MOST_MISHAPS = 2  # of one kind, in one attempt
_MOST_MISSES = 4  # looks in a row without an answer
_TRIES_AT_PARSING = 2
_LIFE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Desk:
    """What an errand works with."""

    family: Family
    settings: MineruSettings
    clock: Clock
    notebook: Notebook
    notes: Notes
    check_family: Callable[[], Awaitable[None]]  # FamilyChanged when the server is another kind by now


@dataclass(frozen=True, slots=True)
class Position:
    """Where the part stands in the document, for progress."""

    pages_before: int
    pages: int


class Errand:
    def __init__(self, desk: Desk, order: Order, position: Position) -> None:
        self._desk, self._order, self._position = desk, order, position
        self._mishaps: Counter[str] = Counter()
        self._is_delivered = self._must_deliver = False
        self._furthest = position.pages_before

    async def run(self, into: Path) -> tuple[Ticket, Parcel]:
        while True:
            try:
                ticket = await self._ticket()
                look = await self._waited(ticket)
                failpoints.reach("mineru.parsed")
                async with self._alive():
                    await self._desk.family.fetch(self._order, ticket, look, into)
                failpoints.reach("mineru.fetched")
                return ticket, await asyncio.to_thread(open_parcel, into, self._desk.settings)
            except TaskLost:
                await self._desk.check_family()
                self._bear("TASK_LOST")
                await self._desk.notes.drop(self._order.part)
            except ParseFailed as failure:
                if await self._desk.notes.drop(self._order.part, failed=True) >= _TRIES_AT_PARSING:
                    raise refused(failure.code, failure.message) from None
            except FileMissing:
                self._bear("FILE_MISSING")
                self._must_deliver = True
            except LinkDead:
                self._bear("LINK_DEAD")  # looking again gives another one
            except ZipDamaged:
                self.bear_damage()

    def bear_damage(self) -> None:
        """A torn result is fetched once more: it may have been torn on its way."""
        self._mishaps["ZIP_DAMAGED"] += 1
        if self._mishaps["ZIP_DAMAGED"] > 1:
            raise not_understood("ZIP_DAMAGED") from None

    async def _ticket(self) -> Ticket:
        desk, part = self._desk, self._order.part
        ticket = desk.notes.ticket(part)
        if ticket is None:
            ticket = await desk.family.submit(self._order)
            failpoints.reach("mineru.submitted")
            await desk.notes.keep(part, ticket)
            failpoints.reach("mineru.remembered")
            log.info("mineru.submitted", family=desk.family.name, id=ticket["id"], part=part.label)
            self._must_deliver = True
        if self._must_deliver:
            await self._deliver(ticket)
        return ticket

    async def _deliver(self, ticket: Ticket) -> None:
        try:
            async with self._alive():
                await self._desk.family.deliver(self._order, ticket)
        except LinkDead:  # nothing was taken, so nothing is done twice by beginning anew
            await self._desk.notes.drop(self._order.part)
            raise
        self._is_delivered, self._must_deliver = True, False
        failpoints.reach("mineru.delivered")

    async def _waited(self, ticket: Ticket) -> Look:
        settings, clock = self._desk.settings, self._desk.clock
        until = clock.monotonic() + settings.poll_limit_seconds.total_seconds()
        pause = settings.poll_first_seconds.total_seconds()
        while True:
            look = await self._looked(ticket)
            if look.is_done:
                return look
            if look.awaits_file and not self._is_delivered:  # whoever submitted it did not come to sending it
                await self._deliver(ticket)
            await self._tell(look)
            if clock.monotonic() + pause > until:
                raise unavailable("NOT_DONE_YET", waited_seconds=settings.poll_limit_seconds.total_seconds())
            await clock.sleep(pause)
            pause = min(pause * 2, settings.poll_most_seconds.total_seconds())

    async def _looked(self, ticket: Ticket) -> Look:
        """A service that does not answer once is asked again: the work goes on there meanwhile."""
        misses = 0
        while True:
            try:
                return await self._desk.family.look(self._order, ticket)
            except PenstockError as failure:
                misses += 1
                if failure.code is not error_codes.OCR_UNAVAILABLE or misses > _MOST_MISSES:
                    raise
            pause = self._desk.settings.poll_first_seconds.total_seconds() * 2**misses
            await self._desk.clock.sleep(min(pause, self._desk.settings.poll_most_seconds.total_seconds()))

    async def _tell(self, look: Look | None = None) -> None:
        """Never back: not every look says how far it is, and a part that is submitted again begins anew."""
        total = self._position.pages or (look.pages if look else 0)
        if look is not None:
            self._furthest = max(self._furthest, self._position.pages_before + look.pages_done)
        await self._desk.notebook.progress(min(self._furthest, total) if total else self._furthest, total)

    @asynccontextmanager
    async def _alive(self) -> AsyncIterator[None]:
        """Signs of life while one long call lasts; the call has a limit of its own."""
        telling = asyncio.create_task(self._keep_telling())
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _keep_telling(self) -> None:
        while True:
            await self._desk.clock.sleep(_LIFE_SECONDS)
            await self._tell()

    def _bear(self, mishap: str) -> None:
        self._mishaps[mishap] += 1
        if self._mishaps[mishap] > _MOST_MISHAPS:
            raise unavailable(mishap)
