"""gRPC on a port: our services, the standard health service, following the same health as HTTP, and reflection."""

import asyncio
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.bootstrap import Parts
from penstock.kernel.health import Health, HealthStatus
from penstock.kernel.listening import refuse_taken_port
from penstock.kernel.runtime import RuntimeSettings
from penstock.rpc.upload_service import SERVICE, upload_calls

log = structlog.get_logger(__name__)
_WATCH_SECONDS = 2.0
_LARGEST_MESSAGE = 1 << 20  # as the largest body over HTTP
_ACCEPTING = 4  # a server takes one call in each turn of the event loop; so many share the port and its connections
_CONCURRENT = 16_384 // _ACCEPTING  # watchers of health count for as long as they watch
_OPTIONS = [("grpc.so_reuseport", 1), ("grpc.max_receive_message_length", _LARGEST_MESSAGE)]
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def serve(parts: Parts, stop: asyncio.Event) -> None:
    """Runs until `stop` is set, then finishes the calls under way within `shutdown_seconds`."""
    runtime = parts.settings.runtime
    servicer = health.aio.HealthServicer()
    await _tell(servicer, parts.health)
    # Sockets that share a port share it with another Penstock too: asked just before they are bound, not sooner.
    refuse_taken_port(runtime.host, runtime.grpc_port, "PENSTOCK_GRPC_PORT")
    servers = [_server(parts, servicer) for _ in range(_ACCEPTING)]
    for server in servers:
        await server.start()
    log.info("grpc.listening", host=runtime.host, port=runtime.grpc_port)
    if runtime.grpc_trust_metadata:
        log.warning("grpc.metadata_trusted", setting="PENSTOCK_GRPC_TRUST_METADATA")
    watching = asyncio.create_task(_watch(servicer, parts), name="grpc health")
    try:
        await stop.wait()
    finally:
        watching.cancel()
        await servicer.enter_graceful_shutdown()
        await asyncio.gather(*(server.stop(runtime.shutdown_seconds.total_seconds()) for server in servers))


def _server(parts: Parts, servicer: health.aio.HealthServicer) -> Any:
    server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_CONCURRENT)
    server.add_generic_rpc_handlers((upload_calls(parts).handlers(),))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection([SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    server.add_insecure_port(_address(parts.settings.runtime))
    return server


async def _watch(servicer: health.aio.HealthServicer, parts: Parts) -> None:
    while True:
        await parts.clock.sleep(_WATCH_SECONDS)
        await _tell(servicer, parts.health)


async def _tell(servicer: health.aio.HealthServicer, ours: Health) -> None:
    report = await ours.report()
    status = _NOT_SERVING if report.status is HealthStatus.UNHEALTHY else _SERVING
    for name in ("", SERVICE):
        await servicer.set(name, status)


def _address(runtime: RuntimeSettings) -> str:
    host = f"[{runtime.host}]" if ":" in runtime.host else runtime.host
    return f"{host}:{runtime.grpc_port}"
