"""The outermost layer of every request, in plain ASGI so that streams pass untouched.

It names the request, adds the headers every answer has, counts and times it under the route's template,
and turns whatever nobody expected into INTERNAL_ERROR. The stack trace goes to the log, never to the caller.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.api import metrics
from penstock.api.access import ACCESS, PUBLIC
from penstock.api.errors import response_of
from penstock.kernel import error_codes
from penstock.kernel.shares import ON_BEHALF_OF
from penstock.kernel.telemetry import bound
from penstock.kernel.telemetry.request_ids import request_id
from penstock.kernel.turns import STRANGERS

log = structlog.get_logger(__name__)
_REFUSED = 400
_CLIENT_GONE = 499
_LINGER_SECONDS = 10.0
_LINGER_BYTES = 64 << 20
_SILENT_SECONDS = 2.0
# Load balancers and `curl -I` ask with HEAD. Not for a sign-in link: a look at it must not use it up.
_PROBED = {
    path
    for (method, path), roles in ACCESS.items()
    if method == "GET" and roles is PUBLIC and "{" not in path and path != "/sign-in"
}
_OVERRIDABLE = "/api/v1/uploads"  # tus clients behind old proxies send PATCH and DELETE as POST
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


class UnderWay:
    """The requests being answered now, so that a stop that has waited long enough can cut them off."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.over = False

    @contextmanager
    def one_more(self) -> Iterator[None]:
        task = asyncio.current_task()
        if task is None:  # not a task of this loop: nothing that could be cut off
            yield
            return
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def cut_off(self) -> int:
        """Those that have not begun to answer say SERVICE_UNAVAILABLE; returns how many there were."""
        self.over = True
        for task in self._tasks:
            task.cancel()
        return len(self._tasks)


class Edge:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, under_way: UnderWay) -> None:
        self._app = app
        self._under_way = under_way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and scope["path"] in _PROBED:
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        if scope["path"].startswith(_OVERRIDABLE):
            override = Headers(scope=scope).get("x-http-method-override", scope["method"])
            scope = {**scope, "method": override.upper()}
        name = request_id(Headers(scope=scope).get("x-request-id"))
        at_end = contextlib.ExitStack()  # what the guard wants done when the request is over
        scope["state"] = {**scope.get("state", {}), "request_id": name, "at_end": at_end}
        ON_BEHALF_OF.set(STRANGERS)  # until the guard knows better
        structlog.contextvars.clear_contextvars()  # whatever an earlier request of this connection left behind
        with bound(request_id=name), self._under_way.one_more(), at_end:
            incoming, answer = _Incoming(receive), _Answer(scope, send)
            await self._answer(scope, incoming, answer)
            if answer.status >= _REFUSED and incoming.untouched and _is_sending(Headers(scope=scope)):
                await incoming.run_out()

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            await self._app(scope, receive, answer)
        except asyncio.CancelledError:
            if answer.status or not self._under_way.over:
                raise
            response = response_of(Request(scope), error_codes.SERVICE_UNAVAILABLE)
            await response(scope, receive, answer)
        except ClientDisconnect:
            answer.status = answer.status or _CLIENT_GONE
        except Exception:
            log.exception("request.failed", method=scope["method"], path=scope["path"])
            if answer.status:  # too late for another answer: the server drops the connection
                raise
            response = response_of(Request(scope), error_codes.INTERNAL_ERROR)
            await response(scope, receive, answer)
        finally:
            answer.count()


class _Incoming:
    """Stands in for `receive`: knows whether the body was asked for."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.untouched = True

    async def __call__(self) -> Message:
        self.untouched = False
        return await self._receive()

    async def run_out(self) -> None:
        """Throw away a body that was refused unread, up to a point.

        Closing at once would reset the connection under whoever still sends, and the refusal with it: proxies then
        answer 502, and take this instance for a broken one.
        """
        received = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while received < _LINGER_BYTES:
                    async with asyncio.timeout(_SILENT_SECONDS):
                        message = await self._receive()
                    if not message.get("more_body", False):  # nor has a disconnect
                        return
                    received += len(message["body"])


class _Answer:
    """Stands in for `send`: completes the headers and remembers what was answered."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._started = time.perf_counter()
        self._timed = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._scope["state"]["request_id"]
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if headers.get("content-type", "").startswith("text/event-stream"):
                self._time()  # a stream is open for hours; what counts is how soon it began
                if (give_back := self._scope["state"].get("give_back")) is not None:
                    give_back()
        await self._send(message)

    def count(self) -> None:
        metrics.REQUESTS.labels(*self._labels(), str(self.status or _CLIENT_GONE)).inc()
        self._time()

    def _time(self) -> None:
        if not self._timed:
            self._timed = True
            metrics.DURATION.labels(*self._labels()).observe(time.perf_counter() - self._started)

    def _labels(self) -> tuple[str, str]:
        route = self._scope.get("route")
        return metrics.method_label(self._scope["method"]), getattr(route, "path", "unmatched")


def _is_sending(headers: Headers) -> bool:
    """Whether a body is on its way. Who said `Expect: 100-continue` waits for leave, and gets none."""
    announced = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    return announced and "expect" not in headers


def _without_body(send: Send) -> Send:
    async def only_headers(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return only_headers
