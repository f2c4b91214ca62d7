"""The server span of an HTTP request, as ASGI middleware without a framework."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from penstock.kernel.telemetry.tracing import continued, describe

_Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


class TraceMiddleware:
    """Goes on with the caller's trace, or starts one, and names the span by the route that answered."""

    def __init__(self, app: _App) -> None:
        self._app = app

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        incoming = next((value for name, value in scope["headers"] if name == b"traceparent"), None)
        traceparent = incoming.decode("latin-1") if incoming else None
        with continued(
            traceparent, method, kind=SpanKind.SERVER, http_request_method=method, url_path=scope["path"]
        ) as span:

            async def noted(message: _Message) -> None:
                if message["type"] == "http.response.start":
                    _note_answer(span, scope, message["status"])
                await send(message)

            await self._app(scope, receive, noted)


def _note_answer(span: Span, scope: _Scope, status: int) -> None:
    if not span.is_recording():
        return
    route = getattr(scope.get("route"), "path", None)
    if route:
        span.update_name(f"{scope['method']} {route}")
        describe(span, http_route=route)
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
