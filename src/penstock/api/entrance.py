"""The outermost layer of HTTP: whose request it is and whose turn, before anything costly is done for it.

The token is checked first. A request then waits for a turn of its merchant (`kernel/turns.py`), whatever becomes of it:
a refusal costs the event loop almost as much as an answer. All strangers together are like one merchant.

How many strangers' requests are under way is limited, too, until their bodies have arrived. When too many are, a new
one takes the place of the oldest that is still sending, or is refused with a bare 503. So thousands of slow bodies hold
neither the memory nor the event loop, and health checks and sign-ins still find a place. Requests with and without a
body are counted apart: the latter are over quickly. The bucket's notifications show a token of their own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.api.access import OWN_TOKENS
from penstock.api.guard import visitor
from penstock.kernel.errors import PenstockError
from penstock.kernel.turns import LONGEST_SECONDS, STRANGERS, Turn

MOST = 256  # of each sort
REFUSED_AFTER_SECONDS = 1.0
SECONDS_TO_SEND = 1.0  # after which a body that still comes may lose its place
_NOTIFICATIONS = "the bucket's notifications"  # no merchant has such an id
_REFUSAL = (
    {
        "type": "http.response.start",
        "status": 503,
        "headers": [(b"retry-after", b"1"), (b"connection", b"close"), (b"content-length", b"0")],
    },
    {"type": "http.response.body", "body": b""},
)


class Entrance:
    """The outermost layer, in plain ASGI. It leaves the request's turn in `scope["state"]["turn"]`, for uploads."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._with_body: _Places = OrderedDict()
        self._without: _Places = OrderedDict()
        self._cut_off: set[asyncio.Task[object]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        owner = await _owner(request)
        if owner == STRANGERS:
            await self._let_in(scope, receive, send)
        else:
            await self._in_turn(owner, scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        places = self._with_body if _has_body(Headers(scope=scope)) else self._without
        if len(places) >= MOST and not self._make_room(places):
            await _refuse(send)
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine of asyncio runs in one
        places[task] = asyncio.get_running_loop().time()
        leave = partial(places.pop, task, None)
        answer = _Answer(send)
        try:
            await self._in_turn(STRANGERS, scope, _until_complete(receive, leave), answer)
        except asyncio.CancelledError:
            if task not in self._cut_off or answer.has_begun:
                raise
            task.uncancel()
            await _refuse(send)
        finally:
            self._cut_off.discard(task)
            leave()

    async def _in_turn(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        async with scope["app"].state.parts.turns.of(owner, is_paced=True) as turn:
            turn.give_after(LONGEST_SECONDS)
            scope["state"] = {**scope.get("state", {}), "turn": turn}
            await self._app(scope, _without_turn(receive, turn), send)

    def _make_room(self, places: "_Places") -> bool:
        """Cuts off the oldest if it has had its time and still sends. One without a body gets its answer."""
        oldest, since = next(iter(places.items()))
        if places is self._without or asyncio.get_running_loop().time() - since < SECONDS_TO_SEND:
            return False
        del places[oldest]
        self._cut_off.add(oldest)
        oldest.cancel()
        return True


class _Answer:
    """Stands in for `send`: remembers whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)


async def _refuse(send: Send) -> None:
    """Not at once: whoever is refused comes back at once, and costs us most when refused most."""
    await asyncio.sleep(REFUSED_AFTER_SECONDS)
    for message in _REFUSAL:
        await send(message)


_Places = OrderedDict[asyncio.Task[object], float]


async def _owner(request: Request) -> str:
    """The merchant whose turn the request takes, or who stands for one."""
    if request.url.path in OWN_TOKENS:
        try:
            await request.app.state.parts.push_tokens.check(request.headers.get("authorization"))
        except PenstockError:
            return STRANGERS
        return _NOTIFICATIONS
    caller = await visitor(request)
    return STRANGERS if caller is None else caller.merchant_id


def _without_turn(receive: Receive, turn: Turn) -> Receive:
    """Waits for the client without a turn."""

    async def receiving() -> Message:
        if not turn.is_held:
            return await receive()
        turn.give()
        message = await receive()
        await turn.take()
        turn.give_after(LONGEST_SECONDS)
        return message

    return receiving


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
