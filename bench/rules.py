"""What rules cost: writing one, trying one, and a task that applies one, beside the same task without.

Own time is all processor time of this process; with the sandbox's processes it is `all_cpu`. `task_by_rule_own_cpu` is
a task without a rule against one with: 1 means that applying it costs this process nothing.
"""

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import uvloop

from bench.etl import _ended, _environment, _place, _readers, _short_book, _used, _working
from penstock.api.app import create_app
from penstock.bootstrap import Parts
from penstock.extraction.submit import Submission, submit
from penstock.kernel.identity import Caller, Role, issue_token

_CALLS, _TASKS = 60, 150
_SECRET = "s" * 32
_OURS = Caller("bench", "m-1", Role.OPERATOR)
_RULES = "/api/v1/etl/rules"
_KEY = "inbox/m-1/p.pdf"
_LINES = ("Invoice No: A-1", "Issued: 2024-01-31", "Total: 12.50", "Buyer: ACME")
_ROW = {"type": "object", "properties": {"name": {"type": "string"}, "qty": {"type": "integer"}}}
_SCHEMA = {
    "type": "object",
    "properties": {
        "invoice_no": {"type": "string"}, "issued": {"type": "string", "format": "date"},
        "total": {"type": "number"}, "buyer": {"type": "string"}, "lines": {"type": "array", "items": _ROW},
    },
}  # fmt: skip
_UNLIMITED = {
    "PENSTOCK_JWT_SECRET": _SECRET, "ETL_RULE_BURST": "10000", "ETL_RULE_RATE_PER_MIN": "100000",
    "ETL_TRY_BURST": "10000", "ETL_TRY_RATE_PER_MIN": "100000",
}  # fmt: skip


def run() -> dict[str, Any]:
    return uvloop.run(_run())


async def _run() -> dict[str, Any]:
    with ExitStack() as stack:
        stack.enter_context(_environment(_UNLIMITED))
        async with _place(works=False) as (parts, directory):
            figures = await _measured(parts, _short_book(directory, 1))
            figures["readers_mib"] = [each.memory_info().rss >> 20 for each in _readers()]
    figures["load_at_end"] = round(os.getloadavg()[0], 1)
    ratio = figures["task_without_rule"]["own_cpu_ms"] / figures["task_by_rule"]["own_cpu_ms"]
    return {"name": "rules", "ratios": {"task_by_rule_own_cpu": round(ratio, 2)}, "figures": figures}


async def _measured(parts: Parts, page: Path) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {issue_token(_SECRET, _OURS, timedelta(hours=1))}"}
    transport = httpx.ASGITransport(create_app(parts))
    async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers, timeout=120) as http:
        names = iter(range(10_000))

        async def write() -> int:
            body = {"name": f"r{next(names)}", "json_schema": _SCHEMA, "postprocess_mode": "rules"}
            return int((await http.post(_RULES, json=body)).raise_for_status().json()["rule_id"])

        rule_id = await write()

        async def try_out() -> None:
            (await http.post(f"{_RULES}/{rule_id}/try", json={"text": "\n".join(_LINES)})).raise_for_status()

        await try_out()
        figures = {"write": await _timed(write), "try": await _timed(try_out)}
    await parts.store.put_file(_KEY, page)
    for what, rule in (("task_by_rule", rule_id), ("task_without_rule", None)):
        await _tasks(parts, rule, 5)  # everything is loaded now
        figures[what] = await _tasks(parts, rule, _TASKS)
    return figures


async def _timed(work: Callable[[], Awaitable[Any]]) -> dict[str, float]:
    begun = _now()
    for _ in range(_CALLS):
        await work()
    return _since(begun, _CALLS)


async def _tasks(parts: Parts, rule_id: int | None, count: int) -> dict[str, float]:
    rows = [await submit(parts.etl, Submission(_OURS, object_key=_KEY, rule_id=rule_id)) for _ in range(count)]
    begun = _now()
    async with _working(parts):
        await _ended(parts, [row["task_id"] for row in rows])
        return _since(begun, count)


def _now() -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), _used()


def _since(begun: tuple[float, float, float], count: int) -> dict[str, float]:
    names = ("wall_ms", "own_cpu_ms", "all_cpu_ms")
    return {name: round(1e3 * (now - then) / count, 2) for name, now, then in zip(names, _now(), begun, strict=True)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(), indent=1) + "\n")
