"""The standard health service (grpc.health.v1), for load balancers; it asks for no token.

`Check` is answered at once. `Watch` holds a call for as long as its client likes, so there are at most `MOST_WATCHERS`
in a process; a further one is refused and may ask with `Check`. All watchers wait for the same event and are told of
the newest status, whichever of them have left meanwhile.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from penstock.kernel.turns import Turns, wait_as_stranger
from penstock.rpc.messages import NoMessage, read_message

SERVICE = "grpc.health.v1.Health"
MOST_WATCHERS = 100
_MOST_CHECKS = 1000  # that have begun and not sent their message yet
_SECONDS_TO_READ = 10.0
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class HealthCalls:
    """The status of some services, and whoever watches it."""

    def __init__(self, services: Iterable[str], turns: Turns) -> None:
        self._services = frozenset(services)
        self._turns = turns
        self._status = _NOT_SERVING
        self._changed = asyncio.Event()
        self._watchers = 0
        self._checks = 0

    def set(self, status: int) -> None:
        """Tells the watchers, if it is another status."""
        if status != self._status:
            self._status = status
            self._changed.set()
            self._changed = asyncio.Event()

    def handlers(self) -> Any:
        made = {
            "Check": grpc.stream_unary_rpc_method_handler(self._check, response_serializer=_serialised),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch, response_serializer=_serialised),
        }
        return grpc.method_handlers_generic_handler(SERVICE, made)

    async def _check(self, _messages: Any, context: Any) -> Any:
        if self._checks >= _MOST_CHECKS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many checks at once")
        self._checks += 1
        try:
            service = await _service(context)
        finally:
            self._checks -= 1
        await wait_as_stranger(self._turns)
        if service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return health_pb2.HealthCheckResponse(status=self._status)

    async def _watch(self, _messages: Any, context: Any) -> None:
        if self._watchers >= MOST_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watch already: use Check")
        self._watchers += 1
        try:
            service = await _service(context)
            while True:
                changed, status = self._changed, self._status if service in self._services else _UNKNOWN
                async with asyncio.timeout(_SECONDS_TO_READ):
                    await context.write(health_pb2.HealthCheckResponse(status=status))
                await changed.wait()
        finally:
            self._watchers -= 1


async def _service(context: Any) -> str:
    """The service that the client asks for."""
    try:
        return str(health_pb2.HealthCheckRequest.FromString(await read_message(context)).service)
    except (DecodeError, NoMessage):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a HealthCheckRequest is awaited")
        raise  # never: abort raises


def _serialised(answer: Any) -> bytes:
    found: bytes = answer.SerializeToString()
    return found
