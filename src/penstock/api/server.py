"""HTTP on a port: granian inside our own event loop, so that we decide when it stops.

Stopping: no new connections, event streams end, requests under way are finished, all within
`shutdown_seconds`; what is not done by then is cut off.
"""

import asyncio

import structlog
from fastapi import FastAPI
from granian.server.embed import Server

from penstock.api.app import create_app
from penstock.api.edge import UnderWay
from penstock.bootstrap import Parts
from penstock.kernel.connections import ConnectionLimiter, limits_of, places_for
from penstock.kernel.listening import http_server, refuse_taken_port

log = structlog.get_logger(__name__)
_SHARE, _PLACES = 2 / 3, 16_384  # of the process's descriptors; event streams keep theirs for as long as they are open


async def serve(parts: Parts, stop: asyncio.Event) -> None:
    """Runs until `stop` is set. A taken port raises SettingsError with a sentence that names it."""
    runtime = parts.settings.runtime
    refuse_taken_port(runtime.host, runtime.port, "PENSTOCK_PORT")
    places = places_for(_SHARE, _PLACES)
    app = create_app(parts)
    limiter = ConnectionLimiter("http", runtime.port, limits_of(runtime, places), trusted=app.state.trusted_peers)
    server = http_server(app, runtime.host, runtime.port, places=places)
    with limiter.running():
        await _serve(parts, server, app, stop)


async def _serve(parts: Parts, server: Server, app: FastAPI, stop: asyncio.Event) -> None:
    runtime = parts.settings.runtime
    serving = asyncio.create_task(server.serve(), name="http server")
    stopping = asyncio.create_task(stop.wait(), name="http stop")
    log.info("http.listening", host=runtime.host, port=runtime.port)
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            server.stop()  # type: ignore[no-untyped-call]
            parts.uploads.interrupt()
            await parts.hub.close()
            await _drain(serving, app.state.under_way, runtime.shutdown_seconds.total_seconds())
        if serving.done():
            serving.result()
    finally:
        stopping.cancel()
        await app.state.readiness.close()
        app.state.exposition.close()


async def _drain(serving: asyncio.Task[None], under_way: UnderWay, seconds: float) -> None:
    await asyncio.wait({serving}, timeout=seconds)
    if not serving.done():
        log.warning("http.cut_off", requests=under_way.cut_off(), after_seconds=seconds)
        await asyncio.wait({serving}, timeout=1)
    log.info("http.stopped")
