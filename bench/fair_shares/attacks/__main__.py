"""One attack as a process: `python -m bench.fair_shares.attacks NAME TARGET SECONDS`, or `burn` for mere load.

Prints `in force` once it has taken hold, and its counts as JSON when it ends.
"""

import asyncio
import json
import os
import resource
import sys
import time

from bench.fair_shares.attacks import calls, documents, events, rules, transfers
from bench.fair_shares.attacks.effort import Effort
from bench.fair_shares.system import Target

_NICENESS = 10
_FILES = 8_192
ATTACKS = {
    each.__name__: each
    for each in (
        documents.occupy_sandbox, documents.flood_admissions, documents.draw_pages,
        rules.write_rules, rules.try_rules, rules.run_rules,
        events.hang_deliveries, events.hold_streams, transfers.flood_uploads,
        calls.queue_tasks, calls.flood_grpc, calls.exhaust_database,
    )
}  # fmt: skip


async def attack(name: str, target: Target, seconds: float) -> None:
    effort = Effort(target)
    under_way = asyncio.create_task(ATTACKS[name](effort))
    told = asyncio.create_task(effort.in_force.wait())
    begun = time.monotonic()
    await asyncio.wait({under_way, told}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    say("in force")
    stopped = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait({under_way, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    failure = repr(under_way.exception()) if under_way.done() else ""
    lasted = time.monotonic() - begun
    usage = resource.getrusage(resource.RUSAGE_SELF)
    say(json.dumps({
        "counts": dict(effort.counts), "seconds": round(lasted, 1), "failure": failure,
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
    }))  # fmt: skip
    os._exit(0)  # thousands of open calls need not be ended one by one


def burn(seconds: float) -> None:
    """Uses one core as far as nobody else wants it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(100_000):
            pass


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.nice(_NICENESS)
    match sys.argv[1:]:
        case ["burn", seconds]:
            burn(float(seconds))
        case [name, target, seconds]:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))
            asyncio.run(attack(name, Target(**json.loads(target)), float(seconds)))
