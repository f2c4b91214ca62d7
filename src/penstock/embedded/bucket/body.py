"""A request's body, piece by piece, never whole; a sender that goes away or falls silent is an answer too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from penstock.embedded.bucket.refusals import Refusal
from penstock.embedded.bucket.threads import OwnedWork

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_IN_TURN_SECONDS = 0.001  # that a request waits for its client without giving its turn to another
_MOST_TO_DRAIN = 64 * 1024 * 1024


class SenderGone(Exception):
    """The body broke off: most probably nobody waits for an answer. One that cannot be read looks the same."""


class HungUpOn(Exception):
    """The sender was silent for too long, or somebody else goes on with what it was doing, or we stop."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a sender is waited for, in seconds. One that never falls silent would be waited for without end."""

    idle: float  # for the next bytes
    whole: float  # for all of a body that is small by its nature
    drain: float  # for the rest of a body that nobody wants


class Body:
    """One reader at a time."""

    def __init__(self, receive: Receive, patience: Patience, work: OwnedWork) -> None:
        self._receive = receive
        self._patience = patience
        self._work = work
        self._waiting: asyncio.Timeout | None = None
        self._hung_up = False
        self.ended = False

    async def next(self) -> bytes:
        """Empty at the end."""
        while not self.ended:
            piece = await self._next()
            if piece:
                return piece
        return b""

    async def whole(self, most: int) -> bytes:
        """For what is small by its nature."""
        taken = bytearray()
        async with self.within(self._patience.whole):
            while piece := await self.next():
                taken += piece
                if len(taken) > most:
                    raise Refusal(413, "EntityTooLarge", f"This body may have {most} bytes at the most.")
        return bytes(taken)

    async def drain(self) -> None:
        """Before an early answer: many clients read it only after they have sent everything."""
        drained = 0
        async with self.within(self._patience.drain):
            while drained < _MOST_TO_DRAIN and (piece := await self.next()):
                drained += len(piece)

    @asynccontextmanager
    async def within(self, seconds: float | None = None) -> AsyncIterator[None]:
        """HungUpOn when the block takes longer, however often bytes come; by default as long as `whole` may take."""
        try:
            async with asyncio.timeout(self._patience.whole if seconds is None else seconds):
                yield
        except TimeoutError:
            self._hung_up = True
            raise HungUpOn from None

    def hang_up(self) -> None:
        """Whoever reads stops reading."""
        self._hung_up = True
        if self._waiting is not None and not self._waiting.expired():  # several may hang up at the same time
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _next(self) -> bytes:
        """Asked for in turn: bytes that nobody asks for stay in the connection, and cost the event loop nothing."""
        if self._hung_up:
            raise HungUpOn
        await self._work.take_turn()
        waited_for_long = asyncio.get_running_loop().call_later(_IN_TURN_SECONDS, self._work.give_turn)
        try:
            async with asyncio.timeout(self._patience.idle) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            self._hung_up = True
            raise HungUpOn from None
        finally:
            self._waiting = None
            waited_for_long.cancel()
        await self._work.take_turn()
        if message["type"] != "http.request":
            self.ended = True
            raise SenderGone
        self.ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))
