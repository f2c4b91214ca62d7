"""Thousands of histories of a harvest, each judged after every step: `python -m tests.chaos.harvest_histories`.

`--histories 3000 --seed 1` plays those with seeds 1 to 3000. One that fails is shortened and printed as a script.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

import structlog

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.migrations import migrate
from penstock.kernel.redis import connect
from tests.support.harvest_histories import History, random_history, shortened
from tests.support.harvest_stage import Stage, opened

_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


async def first_failure(stage: Stage, first: int, count: int) -> str | None:
    """The first of these that fails, shortened, with what is wrong with it."""
    for number, seed in enumerate(range(first, first + count), 1):
        history = random_history(seed)
        if await complaint(stage, history):
            shorter = await shortened(history, lambda each: _fails(stage, each))
            return f"{shorter}\n{await complaint(stage, shorter) or await complaint(stage, history)}"
        if number % 100 == 0:
            print(f"{number} of {count} played", flush=True)  # noqa: T201
    return None


async def complaint(stage: Stage, history: History) -> str | None:
    try:
        await stage.play(history)
    except (AssertionError, PenstockError) as wrong:
        return f"{wrong}"
    return None


async def _fails(stage: Stage, history: History) -> bool:
    return await complaint(stage, history) is not None


async def _run(postgres: str, redis_url: str, first: int, count: int) -> int:
    database = Database(postgres, name="histories")
    await database.open()
    redis = connect(redis_url)
    began = time.monotonic()
    try:
        async with opened(database, redis) as stage:
            try:
                failure = await first_failure(stage, first, count)
            finally:  # also when somebody has seen enough
                for what, number in stage.counted.items():
                    print(f"{what:28} {number}")  # noqa: T201
                print(f"{stage.played / (time.monotonic() - began):.1f} histories a second")  # noqa: T201
    finally:
        await database.close()
        await redis.aclose()
    if failure is not None:
        print(failure)  # noqa: T201
        return 1
    print("every record exactly as in the source, none missed, none twice")  # noqa: T201
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="the first; the others follow")
    parser.add_argument("--histories", type=int, default=3000)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"histories {seed} to {seed + given.histories - 1}; repeat with --seed {seed}", flush=True)  # noqa: T201
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory(prefix="penstock-histories-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        home.chmod(0o755)
        postgres, redis = EmbeddedPostgres(home, settings=_FAST), EmbeddedRedis(home)
        postgres.start()
        redis.start()
        try:
            migrate(postgres.url)
            return asyncio.run(_run(postgres.url, redis.url, seed, given.histories))
        finally:
            redis.stop()
            postgres.stop()


if __name__ == "__main__":
    sys.exit(main())
