"""`penstock`, and `python -m penstock`: the one place where the command line meets the roles that it starts."""

import asyncio
from typing import TYPE_CHECKING

from penstock import cli

if TYPE_CHECKING:
    from penstock.bootstrap import Parts, Settings


async def serve(parts: "Parts", stop: asyncio.Event) -> None:
    """HTTP and gRPC in one loop; when one fails, the other ends too."""
    from penstock.api.server import serve as serve_http
    from penstock.rpc.server import serve as serve_grpc

    async with asyncio.TaskGroup() as group:
        group.create_task(serve_http(parts, stop), name="http")
        group.create_task(serve_grpc(parts, stop), name="grpc")


async def worker(parts: "Parts", stop: asyncio.Event) -> None:
    from penstock.worker import run_worker

    await run_worker(parts, stop)


async def executor(parts: "Parts", stop: asyncio.Event) -> None:
    from penstock.worker import run_executor

    await run_executor(parts, stop)


async def scheduler(parts: "Parts", stop: asyncio.Event) -> None:
    from penstock.worker import run_scheduler

    await run_scheduler(parts, stop)


async def bucket(settings: "Settings", stop: asyncio.Event) -> None:
    from penstock.embedded.bucket.server import BucketServer

    await BucketServer(settings.bucket, settings.runtime).run(stop)


def main() -> None:
    together = {"serve": serve, "worker": worker, "executor": executor, "scheduler": scheduler}
    cli.main(roles={**together, "bucket": bucket})


if __name__ == "__main__":
    main()
