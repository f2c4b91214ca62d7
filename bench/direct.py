"""Direct uploads: announcing files, two hundred phones at once through the embedded bucket, and its notifications.

One `penstock serve` and one `penstock bucket`, each a process, on loopback, with PostgreSQL and Redis as `penstock up`
runs them; the clients are one more process. Each round has ours and the bare limit one after the other. As machines are
shared, processor time of the server stands beside wall time: ratios `_cpu` compare the two, the others compare speed.
direct_init.py, direct_phones.py and direct_callback.py say what exactly is measured.
"""

import json
import os
import statistics
import sys
from typing import Any

import uvloop

from bench import direct_callback
from bench.direct_clients import Times
from bench.direct_init import Announcing
from bench.direct_phones import Films, send_all
from bench.direct_stage import Stage, stage

ROUNDS = 2
Figures = dict[str, float]


def run() -> dict[str, Any]:
    with stage() as running:
        return uvloop.run(_run(running))


async def _run(running: Stage) -> dict[str, Any]:
    announcing, films = Announcing(running), Films()
    rounds = []
    for number in range(ROUNDS):
        ours, bare = await send_all(running, films, number)
        init = {name: _told(*found) for name, found in (await announcing.measure()).items()}
        told = await direct_callback.measure(running)
        callbacks = {name: {**_told(*found[:2]), "postgres_cpu_ms": found[2]} for name, found in told.items()}
        rounds.append({"phones": ours, "bare": bare, **_named("init", init), **_named("callback", callbacks)})
    medians = {
        part: {what: statistics.median(each[part][what] for each in rounds) for what in found}
        for part, found in rounds[0].items()
    }
    figures = {f"{part}_{what}": value for part, found in medians.items() for what, value in found.items()}
    figures["load"] = os.getloadavg()[0]
    return {"name": "direct", "ratios": _ratios(medians), "figures": {k: round(v, 3) for k, v in figures.items()}}


def _named(prefix: str, found: dict[str, Figures]) -> dict[str, Figures]:
    return {f"{prefix}_{name}": figures for name, figures in found.items()}


def _told(times: Times, cpu_ms: float) -> Figures:
    return {"per_s": times.per_second, "p50_ms": times.ms(0.5), "p95_ms": times.ms(0.95), "cpu_ms": cpu_ms}


def _ratios(medians: dict[str, Figures]) -> Figures:
    def compared(ours: str, bare: str) -> Figures:
        mine, limit = medians[f"init_{ours}"], medians[f"init_{bare}"]
        return {
            f"vs_{bare.rpartition('_')[0]}_{ours}": mine["per_s"] / limit["per_s"],
            f"vs_{bare.rpartition('_')[0]}_{ours}_cpu": limit["cpu_ms"] / mine["cpu_ms"],
        }

    phones, bare = medians["phones"], medians["bare"]
    ratios = {
        "vs_raw_phones": phones["mb_s"] / bare["mb_s"],
        "vs_raw_phones_cpu": bare["cpu_s_per_gb"] / phones["bucket_cpu_s_per_gb"],
    }
    for ours, beside in (
        ("new_1", "echo_1"), ("new_64", "echo_64"), ("repeat_1", "echo_1"), ("repeat_64", "echo_64"),
        ("http_new_64", "http_echo_64"),
    ):  # fmt: skip
        ratios |= compared(ours, beside)
    ratios["vs_30_ms_callback_steady_p95"] = 30 / medians["callback_steady"]["p95_ms"]
    return {name: round(value, 3) for name, value in ratios.items()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(), indent=2) + "\n")
