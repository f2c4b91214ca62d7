"""A small server with one event-stream route, run as a process of its own: `python -m tests.support.sse_server`."""

import asyncio
import json
import os
import signal
import sys
from typing import Annotated, Any

import uvloop
from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse
from granian.constants import Interfaces
from granian.server.embed import Server
from prometheus_client import generate_latest

from penstock.api.sse import event_stream
from penstock.kernel import streams
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.redis import Keys, connect
from penstock.kernel.streams import StreamHub, StreamSettings
from tests.support.streams import World


def make_app(hub: StreamHub) -> FastAPI:
    app = FastAPI()

    @app.get("/events/{topic}")
    async def events(
        topic: str, merchant: str = "m", last_event_id: Annotated[str | None, Header()] = None
    ) -> Response:
        return event_stream(hub.subscribe(streams.Request(topic, merchant, last_event_id)))

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(), media_type="text/plain")

    @app.exception_handler(PenstockError)
    async def refuse(request: Request, error: PenstockError) -> JSONResponse:
        return JSONResponse({"code": error.code.code, "details": dict(error.details)}, status_code=429)

    return app


async def serve(options: dict[str, Any]) -> None:
    database, redis = Database(options["database"], name="sse-test"), connect(options["redis"])
    await database.open()
    hub = World(database, redis, Keys("test"), StreamSettings(**options["settings"])).hub()
    hub.start()
    server = Server(
        make_app(hub),
        port=options["port"],
        interface=Interfaces.ASGI,
        backlog=1024,
        backpressure=4096,
        log_enabled=False,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    serving = asyncio.create_task(server.serve())
    await stop.wait()
    await hub.close()
    await asyncio.sleep(0.05)  # the last chunk of each stream leaves
    server.stop()
    await asyncio.wait({serving}, timeout=2)
    await database.close()
    await redis.aclose()
    os._exit(0)  # a connection that never reads must not hold up the end of a test


if __name__ == "__main__":
    uvloop.run(serve(json.loads(sys.argv[1])))
