"""`penstock up`: everything on this machine, from one data directory."""

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from penstock.cli.options import Data, close_files_to_others
from penstock.cli.places import all_settings, runtime_settings
from penstock.cli.progress import Progress
from penstock.embedded.runtime import EmbeddedRuntime, Place, Plan, Program
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.settings import SettingsFile

_KEPT_WHEN_NAMED = (
    "PENSTOCK_STORE_URL", "PENSTOCK_JWT_SECRET", "DIRECT_ENDPOINT", "DIRECT_OPEN_BYTES_PER_MERCHANT"
)  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("up", epilog="Example: penstock up --data ~/penstock-data --port 8080")(up)


def up(  # noqa: PLR0913, PLR0917  one parameter for each option
    data: Data = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on \\[PENSTOCK_HOST, else 127.0.0.1: this machine only]."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="HTTP port; 0 picks a free one \\[PENSTOCK_PORT, else 8000]."
        ),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="gRPC port; 0 picks a free one \\[PENSTOCK_GRPC_PORT, else 8001]."
        ),
    ] = None,
    bucket_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Bucket's port; 0 picks a free one \\[PENSTOCK_BUCKET_PORT, else 8002].",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the logs of all processes.")] = False,
) -> None:
    """Run everything here: PostgreSQL, Redis, HTTP, gRPC, worker, executor, scheduler and bucket.

    Needs nothing but Python. Ctrl-C stops all of it in order; data stays, and the next `up` goes on.
    """
    close_files_to_others()
    all_settings(data)  # a wrong setting of any part is said before anything starts
    settings = runtime_settings(
        data, host=host, port=port or None, grpc_port=grpc_port or None, bucket_port=bucket_port or None
    )
    plan = _plan(settings, port, grpc_port, bucket_port)
    progress = Progress(plan, verbose=verbose, ignored=ignored_settings(settings))
    progress.begin()
    runtime = EmbeddedRuntime(plan, tell=progress.tell)
    progress.end(clean=runtime.run(programs, environment, ready=progress.ready, each_look=progress.show_logs))


def _plan(settings: RuntimeSettings, port: int | None, grpc_port: int | None, bucket_port: int | None) -> Plan:
    """A port of 0 is one that is free."""
    return Plan(
        home=settings.home,
        host=settings.host,
        port=0 if port == 0 else settings.port,
        grpc_port=0 if grpc_port == 0 else settings.grpc_port,
        bucket_port=None if named("DIRECT_BUCKET_URL") else 0 if bucket_port == 0 else settings.bucket_port,
        shutdown_seconds=settings.shutdown_seconds.total_seconds(),
    )


def programs(place: Place) -> Sequence[Program]:
    """The roles, as children of this interpreter."""

    def role(name: str) -> list[str]:
        return [sys.executable, "-P", "-m", "penstock", name]

    everything = [
        Program("serve", role("serve"), answers(f"{place.address}/health/live")),
        Program("worker", role("worker")),
        Program("executor", role("executor")),
        Program("scheduler", role("scheduler")),
    ]
    if place.bucket_port is not None:
        everything.append(Program("bucket", role("bucket"), answers(f"{place.bucket_address}/health/live")))
    return everything


def environment(place: Place) -> dict[str, str]:
    """Ours, told where the servers are. A store, secret, address for phones or quota that the settings name is kept."""
    ours = {
        name: value for name, value in place.environment().items() if name not in _KEPT_WHEN_NAMED or not named(name)
    }
    return {**os.environ, **ours}


def named(name: str) -> bool:
    """Does the environment or the settings file say something?"""
    return bool({**SettingsFile.find().values, **os.environ}.get(name))


def ignored_settings(settings: RuntimeSettings) -> list[str]:
    """Servers that the settings name, which `up` does not use: it brings its own."""
    named = {"PENSTOCK_DATABASE_URL": settings.database_url, "PENSTOCK_REDIS_URL": settings.redis_url}
    return [name for name, url in named.items() if url.get_secret_value()]


def answers(address: str) -> Callable[[], bool]:
    """Does this address answer 200?"""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy

    def ask() -> bool:
        try:
            with direct.open(address, timeout=1) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError, ValueError):
            return False

    return ask
