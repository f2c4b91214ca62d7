"""A request's body, piece by piece, never whole; a sender that goes away or falls silent is an answer too."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from penstock.embedded.bucket.refusals import Refusal

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_MOST_TO_DRAIN = 64 * 1024 * 1024


class SenderGone(Exception):
    """Nobody waits for an answer."""


class HungUpOn(Exception):
    """The sender was silent for too long, or somebody else goes on with what it was doing, or we stop."""


class Body:
    """One reader at a time."""

    def __init__(self, receive: Receive, idle_seconds: float) -> None:
        self._receive = receive
        self._idle = idle_seconds
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
        while piece := await self.next():
            taken += piece
            if len(taken) > most:
                raise Refusal(413, "EntityTooLarge", f"This body may have {most} bytes at the most.")
        return bytes(taken)

    async def drain(self) -> None:
        """Before an early answer: many clients read it only after they have sent everything."""
        drained = 0
        while drained < _MOST_TO_DRAIN and (piece := await self.next()):
            drained += len(piece)

    def hang_up(self) -> None:
        """Whoever reads stops reading."""
        self._hung_up = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _next(self) -> bytes:
        if self._hung_up:
            raise HungUpOn
        try:
            async with asyncio.timeout(self._idle) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            self._hung_up = True
            raise HungUpOn from None
        finally:
            self._waiting = None
        if message["type"] != "http.request":
            self.ended = True
            raise SenderGone
        self.ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))
