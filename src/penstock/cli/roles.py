"""`penstock serve`, `worker`, `executor`, `scheduler`: one role each, as many times on as many machines as wanted.

`penstock bucket` stands alone: it needs no other server, and one process holds its directory.

A role is a coroutine `run(parts, stop)`, handed in by `penstock.__main__`: the command line starts the edges
but does not know them. SIGTERM sets `stop`; a role finishes or hands back what it holds and leaves. A second
SIGTERM leaves at once, and so does a role that is still held up (by a server that hangs, say) past its time.
"""

import asyncio
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import structlog
import typer

import penstock
from penstock.cli.options import Data, close_files_to_others

if TYPE_CHECKING:
    from penstock.bootstrap import Parts, Settings

Role = Callable[["Parts", asyncio.Event], Awaitable[None]]
Roles = Mapping[str, Callable[[Any, asyncio.Event], Awaitable[None]]]
log = structlog.get_logger(__name__)

_DESCRIPTORS = 65_536
_LAST_SECONDS = 5.0  # for closing, after the time that a role may take


def register(app: typer.Typer) -> None:
    app.command("serve", epilog=_example("serve --port 8000 --grpc-port 8001"))(serve)
    app.command("worker", epilog=_example("worker"))(worker)
    app.command("executor", epilog=_example("executor"))(executor)
    app.command("scheduler", epilog=_example("scheduler"))(scheduler)
    app.command("bucket", epilog="Example: BUCKET_PUSH_URL=http://…/_/gcs/callback penstock bucket")(bucket)


def _example(command: str) -> str:
    return f"Example: PENSTOCK_DATABASE_URL=… PENSTOCK_REDIS_URL=… PENSTOCK_STORE_URL=… penstock {command}"


def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on \\[PENSTOCK_HOST, else 127.0.0.1].")
    ] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="HTTP port \\[PENSTOCK_PORT, else 8000].")] = None,
    grpc_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="gRPC port \\[PENSTOCK_GRPC_PORT, else 8001].")
    ] = None,
) -> None:
    """Answer HTTP and gRPC; run as many as wanted.

    Every role is told where the servers are by PENSTOCK_DATABASE_URL, PENSTOCK_REDIS_URL and PENSTOCK_STORE_URL;
    this one needs PENSTOCK_JWT_SECRET or PENSTOCK_JWT_JWKS_URL too.
    """
    run_role(context, "serve", host=host, port=port, grpc_port=grpc_port)


def worker(context: typer.Context) -> None:
    """React to events, call webhooks and do queued jobs; run as many as there is work."""
    run_role(context, "worker")


def executor(context: typer.Context) -> None:
    """Fetch what harvests have queued; run as many as there is work, the sources' limits hold over all."""
    run_role(context, "executor")


def scheduler(context: typer.Context) -> None:
    """Deliver events and do what is due; several may run, each duty is done once."""
    run_role(context, "scheduler")


def bucket(
    context: typer.Context,
    data: Data = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on \\[PENSTOCK_HOST, else 127.0.0.1].")
    ] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="Port \\[PENSTOCK_BUCKET_PORT, else 8002].")] = None,
) -> None:
    """Be the bucket that phones send to, where there is none in a cloud; one per directory."""
    run_role(context, "bucket", home=data, host=host, bucket_port=port)


def run_role(context: typer.Context, name: str, **given: Any) -> None:
    import uvloop

    from penstock.bootstrap import load_settings

    close_files_to_others()
    settings = load_settings(**{key: value for key, value in given.items() if value is not None})
    run = _run_alone if name == "bucket" else _run
    try:
        uvloop.run(run(settings, name, context.obj[name]))
    except ExceptionGroup as failures:
        raise _first(failures) from failures


async def _run(settings: "Settings", name: str, role: Role) -> None:
    from penstock.bootstrap import started

    stop = _stop_when_asked(settings)
    async with started(settings, role=name) as parts:
        log.info("role.started", pid=os.getpid(), version=penstock.__version__)
        await role(parts, stop)
        log.info("role.stopped")


async def _run_alone(
    settings: "Settings", name: str, role: Callable[["Settings", asyncio.Event], Awaitable[None]]
) -> None:
    from penstock.bootstrap import standing_alone

    stop = _stop_when_asked(settings)
    with standing_alone(settings, role=name):
        log.info("role.started", pid=os.getpid(), version=penstock.__version__)
        await role(settings, stop)
        log.info("role.stopped")


def _stop_when_asked(settings: "Settings") -> asyncio.Event:
    _allow_descriptors()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()
        loop.call_later(settings.runtime.shutdown_seconds.total_seconds() + _LAST_SECONDS, os._exit, 1)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    return stop


def _allow_descriptors() -> None:
    """Connections, files and streams need descriptors; many systems start us with 1,024 and allow far more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > _DESCRIPTORS:
        hard = _DESCRIPTORS
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _first(failures: BaseExceptionGroup[Exception]) -> Exception:
    """Of failures that came together, the first tells the story."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
