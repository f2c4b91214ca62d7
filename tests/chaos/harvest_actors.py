"""The executors that get killed: the real role, or one that keeps to the sources named in HARVEST_SOURCES."""

import asyncio
import os
import signal

from penstock.bootstrap import load_settings, started
from penstock.worker import run_executor


async def main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    only = os.environ.get("HARVEST_SOURCES")
    async with started(load_settings(), role="executor") as parts:
        if only is None:
            await run_executor(parts, stop)
        else:
            await parts.harvest.executor(parts.worker_id, sources=only.split(",")).run(stop)


if __name__ == "__main__":
    asyncio.run(main())
