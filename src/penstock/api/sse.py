"""A subscription as a `text/event-stream` response (WHATWG HTML, server-sent events).

`send` waits until the server has handed the bytes to the socket, so a client that stops reading holds up
only its own task; its events wait in the subscription's bounded queue. A client that reads nothing for
`GW_SSE_STALL_SEC` is let go, as it would hold its place for ever.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from penstock.api import examples
from penstock.kernel import json
from penstock.kernel.errors import PenstockError
from penstock.kernel.streams import Notice, Subscription
from penstock.kernel.streams.event import Bookmark

RETRY = b"retry: 5000\n\n"

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would hold events back
}


async def _never() -> bool:
    return False


def event_stream(
    subscription: Subscription, *, until: float | None = None, signed_out: Callable[[], Awaitable[bool]] = _never
) -> Response:
    """Return this from a route; the subscription is closed when the client leaves or the hub ends.

    `until` is when the caller's token expires: who may still listen then comes back with a new one. `signed_out` is
    asked with every heartbeat, and ends the stream of a session that is over.
    """
    return _EventStream(subscription, until, signed_out)


def frame(notice: Notice) -> bytes:
    place = b"" if notice.bookmark is None else b"id: %s\n" % str(notice.bookmark).encode()
    return b"%sevent: %s\ndata: %s\n\n" % (place, notice.name.encode(), notice.data)


_PAGE_DONE = {
    "job_id": examples.JOB_ID,
    "page_no": 1,
    "status": "AI_COMPLETED",
    "skus_found": 1,
    "confidence": 0.93,
    "from": "AI_PROCESSING",
    "to": "AI_COMPLETED",
    "trigger": "page_worked",
    "entity": "page",
    "id": "201",
    "timestamp": "2026-03-01T16:20:00+00:00",
}
_EXAMPLE = Notice("page_completed", json.dump_bytes(_PAGE_DONE), Bookmark.parse(examples.LAST_EVENT_ID))
STREAM: Mapping[int | str, dict[str, Any]] = {  # for a route's `responses`
    200: {
        "description": "Server-sent events: a `snapshot`, then events as they happen, and a `heartbeat` now and then",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": frame(_EXAMPLE).decode()}},
    }
}


class _EventStream(Response):
    def __init__(
        self, subscription: Subscription, until: float | None, signed_out: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__()
        self._signed_out = signed_out
        self._subscription = subscription
        self._until = math.inf if until is None else until

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Only ours: a length would end the stream."""
        super().init_headers({**_HEADERS, **(headers or {})})
        self.raw_headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  signature is ASGI's
        pump, gone = asyncio.create_task(self._pump(send)), asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._subscription.close()
            pump.cancel()
            gone.cancel()
        if pump.done() and not pump.cancelled():
            pump.result()

    async def _pump(self, send: Send) -> None:
        patiently = _LettingGo(send, self._subscription.hub.settings.stall_sec)
        await patiently({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self._chunks():
            await patiently({"type": "http.response.body", "body": chunk, "more_body": True})
        await patiently({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Everything that waits goes out as one chunk; a heartbeat is due whether or not there are events."""
        yield RETRY
        hub = self._subscription.hub
        due = hub.clock.monotonic() + hub.settings.keepalive_sec
        end = hub.clock.monotonic() + self._until - hub.clock.now().timestamp()
        while (now := hub.clock.monotonic()) < end:
            notices = await self._subscription.take(max(0.0, min(due, end) - now))
            if notices is None:
                return
            chunk = b"".join(map(frame, notices))
            if hub.clock.monotonic() >= due:
                if await self._is_over():
                    return
                due = hub.clock.monotonic() + hub.settings.keepalive_sec
                chunk += frame(Notice("heartbeat", json.dump_bytes({"ts": hub.clock.now()})))
            if chunk:
                yield chunk

    async def _is_over(self) -> bool:
        """Whether the session was signed out; while the database is away nobody knows, and the stream goes on."""
        try:
            return await self._signed_out()
        except PenstockError:
            return False


class _LettingGo:
    """`send`, ending its task when the client takes nothing for too long. A bare timer: this is the hot path."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience
        self._task = asyncio.current_task()

    async def __call__(self, message: Message) -> None:
        assert self._task is not None  # noqa: S101  made inside the pump
        timer = asyncio.get_running_loop().call_later(self._patience, self._task.cancel)
        try:
            await self._send(message)
        finally:
            timer.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
