"""Harvests under fire: a library that moves, a source that fails in every way, executors that are killed and paused.

HARVEST, BACKFILL and UPDATE run at once. PostgreSQL is killed, Redis is emptied. In the end the faults stop, what is
left is fetched, and the records must be those of the source, each version stored once, every cursor only ever ahead.
`python -m tests.chaos.harvest_soak --seed 7`; the same seed makes the same library and the same order of trouble.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from penstock.harvest.planning import Candidates, Trigger
from penstock.harvest.spec import Operation
from tests.chaos.harvest_sources import Harbour, generic_source, pointed_at
from tests.chaos.harvest_stage import LIVE, HarvestStage
from tests.chaos.harvest_verdict import judge_books, judge_cursors, judge_records, judge_writes
from tests.standins import Faults, Habits, Library, Standin
from tests.support.clock import TurnedClock

SOURCE = "moving"
ENVIRONMENT = {
    "PENSTOCK_HARVEST_LEASE_SECONDS": "2", "PENSTOCK_HARVEST_ATTEMPTS": "40", "PENSTOCK_STALL_SECONDS": "1",
}  # fmt: skip
MANY = {
    "rate_429": 0.02, "rate_500": 0.05, "reset": 0.04, "slow_body": 0.02, "truncated_json": 0.04,
    "wrong_content_type": 0.04, "out_of_order": 0.3, "duplicate_ids": 0.2, "changing_totals": 0.3, "repeat_page": 0.15,
    "slow_seconds": 0.1,
}  # fmt: skip

_RARE = 0.1


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    records: int = 1500
    days: float = 4.0
    rounds: int = 6  # how often time moves on and is planned for
    executors: int = 3
    blows: int = 3  # things broken in a round
    faults: float = 1.0  # times as many of the rare ones; a short run has few requests


class CountingFaults(Faults):
    """Remembers what it did."""

    def __init__(self, **rates: Any) -> None:
        super().__init__(**rates)
        self.struck: Counter[str] = Counter()

    def strikes(self, name: str) -> bool:
        hit = super().strikes(name)
        self.struck[name] += hit
        return hit


@dataclass
class Soak:
    stage: HarvestStage
    api: Standin
    size: Size
    seed: int
    say: Callable[[str], None]
    did: Counter[str] = field(default_factory=Counter)
    paused: set[str] = field(default_factory=set)
    backfills: list[tuple[datetime, datetime]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.library = self.api.library
        self.names = [f"executor-{number}" for number in range(self.size.executors)]
        self.clock = TurnedClock(self.library.now)
        self.stage.clock = self.clock

    def run(self) -> dict[str, Any]:
        middle = self.library.start + (self.library.end - self.library.start) * 0.4
        self._move_to(self.library.start + (self.library.end - self.library.start) * 0.6)
        for name in self.names:
            self.stage.executor(name, **ENVIRONMENT)
        self._plan(Operation.HARVEST, since=middle)
        self._plan(Operation.BACKFILL, since=self.library.start, until=middle)
        for number in range(self.size.rounds):
            self._round(number)
        self._calm_down()
        return self._verdict()

    def _round(self, number: int) -> None:
        for _ in range(self.size.blows):
            self._break_something()
        step = (self.library.end - self.library.start) * 0.4 / self.size.rounds
        self._move_to(min(self.library.now + step, self.library.end))
        self._plan(Operation.HARVEST)
        self._plan(Operation.UPDATE, candidates=Candidates(limit=200))
        self.say(f"round {number + 1}: {dict(self.did)}, {self.api.counts.total} requests")

    def _move_to(self, instant: datetime) -> None:
        self.library.now = instant
        self.clock.advance((instant - self.clock.now()).total_seconds())

    def _plan(self, operation: Operation, **wanted: Any) -> bool:
        outcome = self.stage.plan(Trigger(SOURCE, operation=operation, run=self._run_for(operation), **wanted))
        self.did["plans"] += outcome.plan_id is not None
        return outcome.plan_id is not None

    def _run_for(self, operation: Operation) -> dict[str, Any]:
        run = pointed_at(self.api)
        return {**run, "detail": dict(run)} if operation is Operation.UPDATE else run

    # Trouble -----------------------------------------------------------------------------------------------------
    def _break_something(self) -> None:
        actions: dict[str, tuple[int, Callable[[], None]]] = {
            "executors killed": (20, self._kill),
            "executors paused": (3, self._pause),
            "Redis emptied": (2, self.stage.flush_redis),
            "Redis killed": (1, self.stage.crash_redis),
            "PostgreSQL killed": (2, self.stage.crash_postgres),
            "connections cut": (2, self.stage.cut_connections),
        }
        due = [name for name in ("PostgreSQL killed", "Redis emptied", "executors paused") if not self.did[name]]
        weights = [weight for weight, _ in actions.values()]
        name = due[0] if due and self.did["executors killed"] >= 2 else self.random.choices(list(actions), weights)[0]
        time.sleep(self.random.uniform(0.1, 0.5))
        actions[name][1]()
        self.did[name] += 1
        self._refuse_self_ended()

    def _kill(self) -> None:
        name = self.random.choice(self.names)
        self._wake(name)
        self.stage.kill(name)
        self.stage.executor(name, **ENVIRONMENT)

    def _pause(self) -> None:
        """Beyond its lease, unless it is woken or killed sooner."""
        for name in list(self.paused):
            self._wake(name)
        name = self.random.choice(self.names)
        self.stage.pause(name)
        self.paused.add(name)

    def _wake(self, name: str) -> None:
        if name in self.paused:
            self.stage.resume(name)
            self.paused.discard(name)

    def _refuse_self_ended(self) -> None:
        for name, process in self.stage.actors.items():
            assert process.poll() is None, f"{name} ended by itself with {process.returncode}\n{self.stage.logs()}"

    # The end -----------------------------------------------------------------------------------------------------
    def _calm_down(self) -> None:
        """No more faults, time at its end; everything that is left is planned and fetched, failed windows too."""
        self.api.faults.change(**dict.fromkeys(MANY, 0.0))
        for name in list(self.paused):
            self._wake(name)
        self._move_to(self.library.end + timedelta(hours=1))
        self._drain()
        while self._plan(Operation.HARVEST):
            self._drain()
        for start, end in self._failed_backfills():
            self._plan(Operation.BACKFILL, since=start, until=end)
        self._drain()

    def _drain(self) -> None:
        self.stage.wait_for(
            lambda: self.stage.query(f"select count(*) from ing_task where status_code in {LIVE}") == [(0,)], 90,
            f"everything fetched (seed {self.seed})",
        )  # fmt: skip

    def _failed_backfills(self) -> list[tuple]:
        return self.stage.query(
            "select window_from, window_to from ing_task where operation_code = 'BACKFILL' and status_code = 'FAILED'"
        )

    def _verdict(self) -> dict[str, Any]:
        self._refuse_self_ended()
        records = judge_records(self.stage, self.api, SOURCE, self.library.now)
        writes = judge_writes(self.stage, self.api, SOURCE)
        events = judge_cursors(self.stage, SOURCE)
        judge_books(self.stage, SOURCE)
        [(runs, lost)] = self.stage.query(
            "select count(*), count(*) filter (where error ->> 'code' = 'EXECUTOR_LOST') from ing_task_run"
        )
        faults = getattr(self.api.faults, "struck", {})
        return {
            **self.did, "requests": self.api.counts.total, "records": records, "versions stored": writes,
            "cursor events": events, "runs": runs, "runs lost": lost,
            **{f"fault: {name}": times for name, times in sorted(faults.items()) if times},
        }  # fmt: skip


def run(
    home: Path, *, seed: int, size: Size, kind: str = "token", say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """One seeded run. Where pages are counted, the total is what shows that one is missing: it must be true there."""
    rates = {name: rate * (size.faults if rate < _RARE else 1.0) for name, rate in MANY.items()}
    if kind != "token":
        rates["changing_totals"] = 0.0
    stage = HarvestStage(home)
    stage.open()
    library = Library(size.records, days=size.days, seed=seed, habits=Habits(revised=0.3, deleted=0.05, late=0.1))
    try:
        with Harbour() as harbour:
            api = harbour.serve("generic", library, faults=CountingFaults(**rates, seed=seed), enforce_rate=False,
                                body_bytes=900)  # fmt: skip
            stage.apply(generic_source(SOURCE, kind, size=25, window="6h"))
            return Soak(stage, api, size, seed, say).run()
    finally:
        stage.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--records", type=int, default=8_000)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"harvests under fire: seed {seed}; repeat with: make chaos SEED={seed}", flush=True)  # noqa: T201
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    for kind in ("token", "offset"):
        print(f"pages by {kind}", flush=True)  # noqa: T201
        size = Size(records=given.records, days=20, rounds=given.rounds, executors=4, blows=5)
        with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as name:
            Path(name).chmod(0o755)
            counted = run(Path(name), seed=seed, size=size, kind=kind, say=lambda text: print(text, flush=True))  # noqa: T201
        for what, number in counted.items():
            print(f"{what:28} {number}")  # noqa: T201
        print("every record is the source's, each version was stored once, no cursor went back", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
