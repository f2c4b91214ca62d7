"""Limits how many requests without a valid token are under way, before anything costly is done for them.

A request counts until the guard knows who calls, or its body has arrived. When too many count, the token of a further
one is checked here; without a good one it takes the place of the oldest that is still sending its body, or is refused
with a bare 503. So thousands of slow bodies hold neither the memory nor the event loop, and health checks, sign-ins and
notifications still find a place. Requests with and without a body are counted apart: the latter are over quickly.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.api.guard import visitor

MOST = 256  # of each sort
SECONDS_TO_SEND = 10.0  # after which a body that still comes may lose its place
_REFUSAL = (
    {
        "type": "http.response.start",
        "status": 503,
        "headers": [(b"retry-after", b"1"), (b"connection", b"close"), (b"content-length", b"0")],
    },
    {"type": "http.response.body", "body": b""},
)


class AnonymousLimit:
    """The outermost layer, in plain ASGI. `scope["state"]["signed_in"]` is what the guard calls."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._with_body: _Places = OrderedDict()
        self._without: _Places = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        places = self._with_body if _has_body(Headers(scope=scope)) else self._without
        if len(places) >= MOST and await visitor(Request(scope)) is None and not self._make_room(places):
            for message in _REFUSAL:
                await send(message)
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine of asyncio runs in one
        places[task] = asyncio.get_running_loop().time()
        scope["state"] = {**scope.get("state", {}), "signed_in": partial(places.pop, task, None)}
        try:
            await self._app(scope, _until_complete(receive, partial(places.pop, task, None)), send)
        finally:
            places.pop(task, None)

    def _make_room(self, places: "_Places") -> bool:
        """Cuts off the oldest if it has had its time and still sends. One without a body gets its answer."""
        oldest, since = next(iter(places.items()))
        if places is self._without or asyncio.get_running_loop().time() - since < SECONDS_TO_SEND:
            return False
        del places[oldest]
        oldest.cancel()
        return True


_Places = OrderedDict[asyncio.Task[object], float]


def _until_complete(receive: Receive, then: Callable[[], object]) -> Receive:
    """Calls `then` when the body has arrived."""

    async def receiving() -> Message:
        message = await receive()
        if not message.get("more_body", False):
            then()
        return message

    return receiving


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
