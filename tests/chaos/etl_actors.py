"""The processes that get killed: a worker, a scheduler, or one who submits a document.

ETL_ROLE=light is a worker without the processes that look into PDFs: they take long to start, and pictures that
somebody else reads need none. ETL_SUBMITS is the key of an object to submit, ETL_KEY the idempotency key.
"""

import asyncio
import os
import signal
import sys

import penstock.bootstrap.etl  # noqa: F401  here, so that a child that is forked need not
from penstock.bootstrap import load_settings, started
from penstock.extraction.submit import Submission, submit
from penstock.worker import run_scheduler, run_worker
from tests.support.etl import ALICE


async def main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if (key := os.environ.get("ETL_SUBMITS")) is not None:
        async with started(load_settings(), role="executor") as parts:
            row = await submit(parts.etl, Submission(ALICE, object_key=key, idempotency_key=os.environ.get("ETL_KEY")))
            sys.stdout.write(f"{row['task_id']}\n")
        return
    role = os.environ.get("ETL_ROLE", "worker")
    async with started(load_settings(), role="executor" if role == "light" else role) as parts:
        await (run_scheduler if role == "scheduler" else run_worker)(parts, stop)


if __name__ == "__main__":
    asyncio.run(main())
