"""`make chaos`: at least 200 kills at random, then proof that nothing was lost, doubled or reordered."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.load import Writer
from tests.chaos.monkey import Monkey
from tests.chaos.stage import Stage
from tests.chaos.verdict import judge, settled


def run(home: Path, *, seed: int, kills: int, seconds: float, say=print) -> dict[str, int]:
    """One seeded run; ends by count of kills or by time, whichever comes first."""
    stage = Stage(home)
    stage.open()
    monkey = Monkey(stage, seed)
    writers = [Writer(stage.postgres.url, seed + n, [f"w{n}-e{entity}" for entity in range(8)]) for n in range(2)]
    try:
        monkey.start_all()
        for writer in writers:
            writer.start()
        deadline = time.monotonic() + seconds
        while stage.kills < kills and time.monotonic() < deadline:
            did = monkey.act()
            say(f"{stage.kills:4d} kills, {did}", flush=True)
        for writer in writers:
            writer.finish()
        monkey.calm_down()
        stage.wait_for(lambda: settled(stage), 60, "outbox and deliveries empty")
        return judge(stage, writers) | {f"did: {name}": times for name, times in sorted(monkey.done.items())}
    finally:
        stage.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=15)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}; repeat with: make chaos SEED={seed}", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        counted = run(Path(name), seed=seed, kills=given.kills, seconds=given.minutes * 60)
    for what, number in counted.items():
        print(f"{what:28} {number}")  # noqa: T201
    print("nothing lost, nothing twice, order kept")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
