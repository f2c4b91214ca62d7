"""gRPC on a port: our services and the standard health service, following the same health as HTTP.

A connection has a limited number of calls at once, is closed when it has been idle for a while, and is limited by
`kernel/connections.py` while it is anonymous. Reflection is there when a setting says so. There is no TLS here.
"""

import asyncio
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection

from penstock.bootstrap import Parts
from penstock.kernel.connections import ConnectionLimiter, limits_of, places_for
from penstock.kernel.health import Health, HealthStatus
from penstock.kernel.listening import refuse_taken_port
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.turns import Turns, wait_as_stranger
from penstock.rpc.health import SERVICE as HEALTH
from penstock.rpc.health import HealthCalls
from penstock.rpc.upload_service import SERVICE, upload_calls

log = structlog.get_logger(__name__)
_WATCH_SECONDS = 2.0
_LARGEST_MESSAGE = 1 << 20  # as the largest body over HTTP
_ACCEPTING = 4  # a server takes one call in each turn of the event loop; so many share the port and its connections
_CONCURRENT = 16_384 // _ACCEPTING
_SHARE, _PLACES = 1 / 4, 4096  # connections: the share of the process's descriptors, and the most
_OPTIONS = [
    ("grpc.so_reuseport", 1),
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.absolute_max_metadata_size", 24 << 10),
    ("grpc.max_concurrent_streams", 128),  # of one connection
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),  # without a call; clients connect again by themselves
    ("grpc.max_connection_age_ms", 3_600_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
]
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def serve(parts: Parts, stop: asyncio.Event) -> None:
    """Runs until `stop` is set, then finishes the calls under way within `shutdown_seconds`."""
    runtime = parts.settings.runtime
    told = HealthCalls(("", SERVICE), parts.turns)
    await _tell(told, parts.health)
    # Sockets that share a port share it with another Penstock too: asked just before they are bound, not sooner.
    refuse_taken_port(runtime.host, runtime.grpc_port, "PENSTOCK_GRPC_PORT")
    places = places_for(_SHARE, _PLACES)
    limiter = ConnectionLimiter("grpc", runtime.grpc_port, limits_of(runtime, places))
    services = (upload_calls(parts, limiter.trusted).handlers(), told.handlers())
    servers = [_server(runtime, services, places, parts.turns) for _ in range(_ACCEPTING)]
    with limiter.running():
        await _serve(parts, servers, told, stop)


async def _serve(parts: Parts, servers: list[Any], told: HealthCalls, stop: asyncio.Event) -> None:
    runtime = parts.settings.runtime
    for server in servers:
        await server.start()
    log.info("grpc.listening", host=runtime.host, port=runtime.grpc_port)
    if runtime.grpc_trust_metadata:
        log.warning("grpc.metadata_trusted", setting="PENSTOCK_GRPC_TRUST_METADATA")
    watching = asyncio.create_task(_watch(told, parts), name="grpc health")
    try:
        await stop.wait()
    finally:
        watching.cancel()
        told.set(_NOT_SERVING)
        await asyncio.gather(*(server.stop(runtime.shutdown_seconds.total_seconds()) for server in servers))


def _server(runtime: RuntimeSettings, services: tuple[Any, ...], places: int, turns: Turns) -> Any:
    options = [*_OPTIONS, ("grpc.max_allowed_incoming_connections", places)]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=_CONCURRENT)
    server.add_generic_rpc_handlers(services)
    if runtime.grpc_reflection:
        reflection.enable_server_reflection([SERVICE, HEALTH, reflection.SERVICE_NAME], server)
    server.add_generic_rpc_handlers((_NoSuchMethod(turns),))
    server.add_insecure_port(_address(runtime))
    return server


class _NoSuchMethod(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc says nothing of its types
    """Answers calls of methods that nobody else knows; the last of a server's handlers."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def service(self, handler_call_details: Any) -> Any:  # noqa: ARG002  grpc's signature
        return grpc.stream_stream_rpc_method_handler(self._refuse)

    async def _refuse(self, _messages: Any, context: Any) -> None:
        await wait_as_stranger(self._turns)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")


async def _watch(told: HealthCalls, parts: Parts) -> None:
    while True:
        await parts.clock.sleep(_WATCH_SECONDS)
        await _tell(told, parts.health)


async def _tell(told: HealthCalls, ours: Health) -> None:
    report = await ours.report()
    told.set(_NOT_SERVING if report.status is HealthStatus.UNHEALTHY else _SERVING)


def _address(runtime: RuntimeSettings) -> str:
    host = f"[{runtime.host}]" if ":" in runtime.host else runtime.host
    return f"{host}:{runtime.grpc_port}"
