"""HTTP on a port: granian inside our own event loop, so that we decide when it stops.

Stopping: no new connections, event streams end, requests under way are finished, all within
`shutdown_seconds`; what is not done by then is cut off.
"""

import asyncio

import structlog
from granian.constants import Interfaces
from granian.server.embed import Server

from penstock.api.app import create_app
from penstock.api.edge import UnderWay
from penstock.bootstrap import Parts
from penstock.kernel.listening import refuse_taken_port

log = structlog.get_logger(__name__)
_BACKLOG = 1024
_CONCURRENT = 16_384  # event streams count as requests for as long as they are open


async def serve(parts: Parts, stop: asyncio.Event) -> None:
    """Runs until `stop` is set. A taken port raises SettingsError with a sentence that names it."""
    runtime = parts.settings.runtime
    refuse_taken_port(runtime.host, runtime.port, "PENSTOCK_PORT")
    app = create_app(parts)
    server = Server(
        app,
        address=runtime.host,
        port=runtime.port,
        interface=Interfaces.ASGINL,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_CONCURRENT,
        log_enabled=False,
    )
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


async def _drain(serving: asyncio.Task[None], under_way: UnderWay, seconds: float) -> None:
    await asyncio.wait({serving}, timeout=seconds)
    if not serving.done():
        log.warning("http.cut_off", requests=under_way.cut_off(), after_seconds=seconds)
        await asyncio.wait({serving}, timeout=1)
    log.info("http.stopped")
