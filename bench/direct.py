"""Direct uploads: announcing files, two hundred phones at once through the embedded bucket, and its notifications.

One `penstock serve` and one `penstock bucket`, each a process, on loopback, with PostgreSQL and Redis as `penstock up`
runs them; the clients are one more process. Each round has ours and the bare limit one after the other. As machines are
shared, processor time of the server stands beside wall time: ratios `_cpu` compare the two, the others compare speed.
direct_init.py, direct_phones.py and direct_callback.py say what exactly is measured. `python -m bench.direct init`
measures the announcing alone.
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
ROUNDS_OF_INIT = 5
Figures = dict[str, float]


def run(*, only_init: bool = False) -> dict[str, Any]:
    with stage() as running:
        return uvloop.run(_run_init(running) if only_init else _run(running))


async def _run_init(running: Stage) -> dict[str, Any]:
    announcing = Announcing(running)
    rounds = [
        _named("init", {name: _told(*found) for name, found in (await announcing.measure()).items()})
        for _ in range(ROUNDS_OF_INIT)
    ]
    medians = _medians(rounds)
    return {"name": "direct", "ratios": _rounded(_init_ratios(medians)), "figures": _figures(medians)}


async def _run(running: Stage) -> dict[str, Any]:
    announcing, films = Announcing(running), Films()
    rounds: list[dict[str, Figures]] = []
    for number in range(ROUNDS):
        ours, bare = await send_all(running, films, number)
        init = {name: _told(*found) for name, found in (await announcing.measure()).items()}
        told = await direct_callback.measure(running)
        callbacks = {name: {**_told(*found[:2]), "postgres_cpu_ms": found[2]} for name, found in told.items()}
        rounds.append({"phones": ours, "bare": bare, **_named("init", init), **_named("callback", callbacks)})
    medians = _medians(rounds)
    return {"name": "direct", "ratios": _rounded(_ratios(medians)), "figures": _figures(medians)}


def _medians(rounds: list[dict[str, Figures]]) -> dict[str, Figures]:
    return {
        part: {what: statistics.median(each[part][what] for each in rounds) for what in found}
        for part, found in rounds[0].items()
    }


def _figures(medians: dict[str, Figures]) -> Figures:
    figures = {f"{part}_{what}": value for part, found in medians.items() for what, value in found.items()}
    return _rounded({**figures, "load": os.getloadavg()[0]})


def _rounded(figures: Figures) -> Figures:
    return {name: round(value, 3) for name, value in figures.items()}


def _named(prefix: str, found: dict[str, Figures]) -> dict[str, Figures]:
    return {f"{prefix}_{name}": figures for name, figures in found.items()}


def _told(times: Times, cpu_ms: float) -> Figures:
    return {"per_s": times.per_second, "p50_ms": times.ms(0.5), "p95_ms": times.ms(0.95), "cpu_ms": cpu_ms}


def _ratios(medians: dict[str, Figures]) -> Figures:
    phones, bare = medians["phones"], medians["bare"]
    return {
        "vs_raw_phones": phones["mb_s"] / bare["mb_s"],
        "vs_raw_phones_cpu": bare["cpu_s_per_gb"] / phones["bucket_cpu_s_per_gb"],
        **_init_ratios(medians),
        "vs_30_ms_callback_steady_p95": 30 / medians["callback_steady"]["p95_ms"],
    }


def _init_ratios(medians: dict[str, Figures]) -> Figures:
    ratios = {}
    for ours, bare in (
        ("new_1", "echo_1"), ("new_64", "echo_64"), ("repeat_1", "echo_1"), ("repeat_64", "echo_64"),
        ("http_new_64", "http_echo_64"),
    ):  # fmt: skip
        mine, limit = medians[f"init_{ours}"], medians[f"init_{bare}"]
        name = f"vs_{bare.rpartition('_')[0]}_{ours}"
        ratios[name] = mine["per_s"] / limit["per_s"]
        ratios[f"{name}_cpu"] = limit["cpu_ms"] / mine["cpu_ms"]
    return ratios


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(only_init=sys.argv[1:] == ["init"]), indent=2) + "\n")
