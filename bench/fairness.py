"""Fair shares: what one merchant's worst at each shared place does to another merchant's times.

For each place a whole `penstock up` is started anew, with default limits unless the environment sets others. An honest
merchant's operation is timed three times: alone; beside one busy process per core (`load`: what the mere lack of
processors costs on this machine); and while a hostile merchant attacks that place within its limits. Attack and load
are processes of lower priority (nice +10), so that the server's fairness is measured and not the attacker's processor
time. Fair: p95 at most doubles; a difference below 50 ms is noise. An answer that takes longer than 20 s counts as
20 s, so ratios are then at least what is said. fair_shares/sampling.py says how times are taken, fair_shares/attacks/
what is done.

`python -m bench.fairness [--json] [--place NAME …] [--seconds N]`; `penstock bench fairness` runs all places.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

from bench.fair_shares import rivals
from bench.fair_shares.places import PLACES, Place
from bench.fair_shares.sampling import Series, sample
from bench.fair_shares.system import System, running_system

SECONDS = 15.0  # for each of the three series
AT_MOST = 2.0
NOISE_MS = 50.0
_WARM_UP_SECONDS = 1.5


@dataclass(frozen=True)
class Row:
    """One operation at one place. Times are p50 and p95 in ms."""

    place: str
    operation: str
    samples: tuple[int, ...]  # alone, beside the load, under attack
    alone: tuple[float, float]
    load: tuple[float, float]
    attacked: tuple[float, float]
    failures: dict[str, int]
    attack: str
    attack_failure: str
    cores: tuple[float, float]  # that the system and the attacker used while it went on

    @property
    def ratio(self) -> float:
        return self.attacked[1] / self.alone[1]

    @property
    def load_ratio(self) -> float:
        return self.load[1] / self.alone[1]

    @property
    def is_fair(self) -> bool:
        return self.ratio <= AT_MOST or self.attacked[1] - self.alone[1] < NOISE_MS

    def told(self) -> str:
        verdict = "fair" if self.is_fair else "UNFAIR"
        times = f"alone {_ms(self.alone)}  load {_ms(self.load)}  attacked {_ms(self.attacked)}"
        ratios = f"× {self.ratio:6.2f}  (load × {self.load_ratio:.2f})"
        return f"{self.place:<11} {self.operation:<32} {times}  {ratios}  {verdict}"

    def details(self) -> str:
        used = f"cores: system {self.cores[0]:.1f}, attacker {self.cores[1]:.1f}"
        failed = f"  refused or late: {self.failures}" if self.failures else ""
        broken = f"  ATTACK BROKE OFF: {self.attack_failure}" if self.attack_failure else ""
        return f"{'':<11} n {'/'.join(map(str, self.samples))}  attack: {self.attack}  {used}{failed}{broken}"


def _ms(pair: tuple[float, float]) -> str:
    return f"{pair[0]:6.0f}/{pair[1]:6.0f} ms"


def run() -> dict[str, Any]:
    """FAIRNESS_PLACES (names with commas) and FAIRNESS_SECONDS do what the options do."""
    named = [each for each in os.environ.get("FAIRNESS_PLACES", "").split(",") if each]
    return measure_places(named, float(os.environ.get("FAIRNESS_SECONDS", SECONDS)))


def measure_places(named: Sequence[str], seconds: float) -> dict[str, Any]:
    rows: list[Row] = []
    begun = time.monotonic()
    for place in PLACES:
        if not named or place.name in named:
            with running_system() as system:
                found = asyncio.run(_measured(place, system, seconds))
            for row in found:
                sys.stderr.write(f"{row.told()}\n{row.details()}\n")
            rows += found
    return {
        "name": "fairness",
        "ratios": {f"{row.place}: {row.operation}": round(row.ratio, 2) for row in rows},
        "figures": {
            **{f"{row.place}: {row.operation}": row.told().split("  ", 1)[1].strip() for row in rows},
            "unfair": sum(not row.is_fair for row in rows),
            "seconds": round(time.monotonic() - begun),
        },
        "rows": [{**asdict(row), "ratio": row.ratio, "is_fair": row.is_fair} for row in rows],
    }


async def _measured(place: Place, system: System, seconds: float) -> list[Row]:
    async with AsyncExitStack() as stack:
        victims = [make(system.target) for make in place.victims]
        for victim in victims:
            await victim.prepare(stack)
        await sample(victims, _WARM_UP_SECONDS)
        alone = await sample(victims, seconds)
        async with rivals.load(2 * seconds):
            load = await sample(victims, seconds)
        cpu, begun = system.cpu_seconds(), time.monotonic()
        async with rivals.attack(place.attack, system.target, 10 * seconds) as attack:
            attacked = await sample(victims, seconds)
        cores = (system.cpu_seconds() - cpu) / (time.monotonic() - begun)
    return [
        _row(place, victim.name, series, attack.report, cores)
        for victim, *series in zip(victims, alone, load, attacked, strict=True)
    ]


def _row(place: Place, operation: str, series: Sequence[Series], report: dict[str, Any], cores: float) -> Row:
    pace = series[0].usual()
    alone, load, attacked = ((each.ms(0.5, pace), each.ms(0.95, pace)) for each in series)
    failures = [failure for each in series for failure in each.failures]
    lasted = report.get("seconds") or 1.0
    counts = ", ".join(f"{what} × {count}" for what, count in sorted(report.get("counts", {}).items()))
    return Row(
        place.name, operation, tuple(len(each.taken) for each in series), alone, load, attacked,
        {each: failures.count(each) for each in sorted(set(failures))}, f"{counts} in {lasted:.0f} s",
        report.get("failure", "no report"), (cores, report.get("cpu_seconds", 0.0) / lasted),
    )  # fmt: skip


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--place", action="append", default=[], choices=[each.name for each in PLACES])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each of the three series of a place")
    given = parser.parse_args()
    result = measure_places(given.place, given.seconds)
    if given.json:
        sys.stdout.write(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return 1 if result["figures"]["unfair"] else 0


if __name__ == "__main__":
    sys.exit(_main())
