"""gRPC on a port: the standard health service, following the same health as HTTP, and reflection."""

import asyncio

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.bootstrap import Parts
from penstock.kernel.health import Health, HealthStatus
from penstock.kernel.listening import refuse_taken_port
from penstock.kernel.runtime import RuntimeSettings

log = structlog.get_logger(__name__)
_WATCH_SECONDS = 2.0
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def serve(parts: Parts, stop: asyncio.Event) -> None:
    """Runs until `stop` is set, then finishes the calls under way within `shutdown_seconds`."""
    runtime = parts.settings.runtime
    refuse_taken_port(runtime.host, runtime.grpc_port, "PENSTOCK_GRPC_PORT")
    servicer = health.aio.HealthServicer()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection([health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    await _tell(servicer, parts.health)
    server.add_insecure_port(_address(runtime))
    await server.start()
    log.info("grpc.listening", host=runtime.host, port=runtime.grpc_port)
    watching = asyncio.create_task(_watch(servicer, parts), name="grpc health")
    try:
        await stop.wait()
    finally:
        watching.cancel()
        await servicer.enter_graceful_shutdown()
        await server.stop(runtime.shutdown_seconds.total_seconds())


async def _watch(servicer: health.aio.HealthServicer, parts: Parts) -> None:
    while True:
        await parts.clock.sleep(_WATCH_SECONDS)
        await _tell(servicer, parts.health)


async def _tell(servicer: health.aio.HealthServicer, ours: Health) -> None:
    report = await ours.report()
    status = _NOT_SERVING if report.status is HealthStatus.UNHEALTHY else _SERVING
    await servicer.set("", status)


def _address(runtime: RuntimeSettings) -> str:
    host = f"[{runtime.host}]" if ":" in runtime.host else runtime.host
    return f"{host}:{runtime.grpc_port}"
