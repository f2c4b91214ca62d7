"""The rate gate against its promise and against Redis's own limit.

Sixteen real processes share one key for a minute: how near to the rate do they stay, and does any window hold
more than burst + rate * T? Then: how many acquires a second, against a bare round trip of the same client.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from itertools import pairwise

from bench import servers
from penstock.kernel.rategate import RateGate, RatePolicy
from penstock.kernel.redis import Keys, Redis, connect

_PROCESSES, _CALLERS = 16, 4
_SHARED = RatePolicy(rate=200, burst=20)
_OPEN = RatePolicy(rate=1e6, burst=1_000_000)
_PREFETCHING = RatePolicy(rate=1e6, burst=1_000_000, prefetch=100)


def run(seconds: float = 60.0) -> dict[str, object]:
    """`seconds` is how long the sixteen run; the rest takes about five more."""
    with servers.redis() as url:
        speed = asyncio.run(_measure_speed(url))
        shared = _share(url, seconds)
    grants = [at for at, _ in shared]
    stretch = grants[-1] - grants[0]
    accuracy = (len(grants) - _SHARED.burst) / (stretch * _SHARED.rate)
    return {
        "name": "gate",
        "ratios": {
            "vs_set_rate": round(accuracy, 4),
            "vs_raw": round(speed["acquire_per_s"] / speed["raw_evalsha_per_s"], 3),
            "vs_raw_with_prefetch": round(speed["prefetch_per_s"] / speed["raw_evalsha_per_s"], 3),
        },
        "figures": {
            **{what: round(value) for what, value in speed.items()},
            "seconds": round(stretch, 2),
            "permits": len(grants),
            "excess_of_worst_window": round(_worst_excess(grants), 3),
            "excess_as_callers_saw_it": round(_worst_excess(sorted(at + late for at, late in shared)), 3),
            "longest_gap_ms": round(max(b - a for a, b in pairwise(grants)) * 1000, 1),
        },
    }


def _worst_excess(grants: list[float]) -> float:
    """Tokens beyond burst + rate * T in the worst window of any length; the promise is <= 0."""
    best = worst = float("-inf")
    for count, at in enumerate(grants):
        best = max(best, _SHARED.rate * at - count)
        worst = max(worst, count + 1 - _SHARED.rate * at + best - _SHARED.burst)
    return worst


def _share(url: str, seconds: float) -> list[tuple[float, float]]:
    """Each process reports every permit: when by Redis's clock, and how much later its caller had it."""
    command = [sys.executable, "-m", "bench.gate", "--share", url, str(seconds)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, env=environ, **pipes) for _ in range(_PROCESSES)]
    for process in running:
        process.stdout.readline()  # it is up
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=seconds + 60)[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("a sharing process failed")
    reported = [line.split() for output in outputs for line in output.splitlines()]
    return sorted((float(at), float(late)) for at, late in reported)


async def _take_share(url: str, seconds: float) -> None:
    client = connect(url)
    gate, granted = RateGate(client, Keys("bench")), []
    await client.ping()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    ends = time.monotonic() + seconds

    async def caller() -> None:
        while time.monotonic() < ends:
            allow = await gate.permit("shared", _SHARED, deadline=60)
            granted.append((allow.at, time.time() - allow.at))

    await asyncio.gather(*[caller() for _ in range(_CALLERS)])
    await client.aclose()
    sys.stdout.write("\n".join(f"{at:.6f} {late:.6f}" for at, late in granted))


async def _measure_speed(url: str) -> dict[str, float]:
    client = connect(url)
    gate = RateGate(client, Keys("bench"))
    digest = await client.script_load("return redis.call('INCR', KEYS[1])")

    async def raw(client: Redis = client) -> None:
        await client.evalsha(digest, 1, "bench:raw")

    async def acquire() -> None:
        await gate.acquire("open", _OPEN)

    async def prefetch() -> None:
        await gate.acquire("prefetched", _PREFETCHING)

    speed = {}
    for name, call in (("raw_evalsha_per_s", raw), ("acquire_per_s", acquire), ("prefetch_per_s", prefetch)):
        await call()
        calls, started = 0, time.perf_counter()
        while time.perf_counter() - started < 1.5:
            for _ in range(100):
                await call()
            calls += 100
        speed[name] = calls / (time.perf_counter() - started)
    await client.aclose()
    return speed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--share", nargs=2, metavar=("URL", "SECONDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.share:
        asyncio.run(_take_share(given.share[0], float(given.share[1])))
    else:
        sys.stdout.write(json.dumps(run(given.seconds), indent=2) + "\n")
