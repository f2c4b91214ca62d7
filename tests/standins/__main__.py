"""`python -m tests.standins NAME`: a stand-in as a process of its own; its first line is its address."""

import argparse
import asyncio
import gc
import sys

from tests.standins import NAMES, serve
from tests.standins.faults import LEVELS


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m tests.standins")
    reader.add_argument("name", choices=(*NAMES, "oai_pmh"))
    reader.add_argument("--port", type=int, default=0)
    reader.add_argument("--records", type=int, default=20_000)
    reader.add_argument("--days", type=float, default=30)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--faults", choices=tuple(LEVELS), default="none")
    reader.add_argument("--no-limits", action="store_true")
    reader.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    reader.add_argument("--warm", action="store_true", help="write every item before the address is printed")
    reader.add_argument("--rate", type=int, default=None, help="generic: requests a second")
    asyncio.run(_serve(reader.parse_args()))


async def _serve(asked: argparse.Namespace) -> None:
    options = {"port": asked.port, "enforce_rate": not asked.no_limits, "latency": asked.latency, "rate": asked.rate}
    async with serve(
        asked.name, records=asked.records, days=asked.days, seed=asked.seed, faults=asked.faults, **options
    ) as served:
        if asked.warm:
            served.api.warm()
        gc.freeze()  # the library stays; looking through it again and again would cost time
        sys.stdout.write(served.url + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
