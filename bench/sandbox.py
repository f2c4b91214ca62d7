"""What a sandboxed call costs, against a bare echo between two processes and against the usual ways.

Ratios are times: 2.0 means twice as long as the thing it is named after.
"""

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from penstock.kernel.sandbox import Ending, Sandbox, SandboxSettings

_CALLS = 300
_PRELOAD = ("operator", "penstock.pdf.look", "penstock.pdf.measure", "penstock.pdf.rendering")  # as admission has them
_FUNCTION = "operator:add"


def run() -> dict[str, Any]:
    """Median microseconds per call; three rounds in turn, so that a busy moment touches all alike."""
    rounds = [_round() for _ in range(3)]
    figures = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    return {
        "name": "sandbox",
        "ratios": {
            "vs_raw": round(figures["raw_echo_us"] / figures["call_us"], 4),
            "vs_bare_fork": round(figures["bare_fork_us"] / figures["call_us"], 2),
            "vs_process_pool_executor": round(figures["process_pool_executor_us"] / figures["call_us"], 3),
            "vs_fresh_subprocess": round(figures["fresh_subprocess_us"] / figures["call_us"], 1),
        },
        "figures": {name: round(value, 1) for name, value in figures.items()},
    }


def _round() -> dict[str, float]:
    return {
        "raw_echo_us": _raw_echo(),
        "bare_fork_us": _bare_fork(),
        **asyncio.run(_sandbox()),
        "process_pool_executor_us": asyncio.run(_executor()),
        "fresh_subprocess_us": _fresh_process(),
    }


def _median_us(once: Callable[[], Any], times: int) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        once()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def _raw_echo() -> float:
    """The limit: blocking send and receive of 32 bytes between us and a forked process."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        while data := theirs.recv(64):
            theirs.sendall(data)
        os._exit(0)
    theirs.close()

    def once() -> None:
        ours.sendall(b"x" * 32)
        ours.recv(64)

    taken = _median_us(once, _CALLS)
    ours.close()
    os.waitpid(child, 0)
    return taken


def _bare_fork() -> float:
    """The limit for a process of its own: fork this small interpreter, leave, wait."""

    def once() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    return _median_us(once, _CALLS)


async def _sandbox() -> dict[str, float]:
    began = time.perf_counter()
    async with Sandbox(SandboxSettings(workers=2), preload=_PRELOAD) as sandbox:
        started = time.perf_counter() - began
        taken, cpu = [], 0.0
        for _ in range(_CALLS):
            began = time.perf_counter()
            outcome = await sandbox.call(_FUNCTION, 1, 2)
            taken.append(time.perf_counter() - began)
            cpu += outcome.seconds
            if outcome.value != 3:
                raise RuntimeError(f"the sandbox does not work here: {outcome}")
        began = time.perf_counter()
        await asyncio.gather(*(sandbox.call(_FUNCTION, 1, 2) for _ in range(_CALLS)))
        crowd = time.perf_counter() - began
        recovery = await _recovery(sandbox)
    taken.sort()
    return {
        "call_us": statistics.median(taken) * 1e6,
        "call_p99_us": taken[int(len(taken) * 0.99)] * 1e6,
        "call_cpu_us": cpu / _CALLS * 1e6,
        "two_at_once_calls_per_second": _CALLS / crowd,
        "start_of_the_template_ms": started * 1e3,
        "after_two_crashes_next_call_ms": recovery * 1e3,
    }


async def _recovery(sandbox: Sandbox) -> float:
    """Both workers crash; how long until a call has an answer again."""
    crashes = await asyncio.gather(*(sandbox.call("os:abort") for _ in range(2)))
    if any(crash.ending is not Ending.CRASHED for crash in crashes):
        raise RuntimeError(f"the workers did not crash: {crashes}")
    began = time.perf_counter()
    await sandbox.call(_FUNCTION, 1, 2)
    return time.perf_counter() - began


async def _executor() -> float:
    loop, taken = asyncio.get_running_loop(), []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        await loop.run_in_executor(executor, max, 1, 2)
        for _ in range(_CALLS):
            began = time.perf_counter()
            await loop.run_in_executor(executor, max, 1, 2)
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def _fresh_process() -> float:
    return _median_us(lambda: subprocess.run([sys.executable, "-I", "-c", "print(1 + 2)"], check=True,
                                             stdout=subprocess.DEVNULL), 15)  # fmt: skip


if __name__ == "__main__":
    from penstock.kernel import json

    sys.stdout.write(json.dumps(run()) + "\n")
