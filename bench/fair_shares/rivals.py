"""Processes that run beside the system while an honest merchant's times are taken: an attack, or mere load."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.fair_shares.system import Target, environment

_MODULE = "bench.fair_shares.attacks"
_TAKES_HOLD = 60.0  # seconds until an attack must be in force


@asynccontextmanager
async def load(seconds: float) -> AsyncIterator[None]:
    """One busy process of low priority for each core: what the mere lack of processors costs."""
    busy = [await _started("burn", str(seconds)) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            await each.wait()


class Attack:
    """An attack under way; `report` is what it says of itself when it has ended."""

    def __init__(self) -> None:
        self.report: dict[str, Any] = {}


@asynccontextmanager
async def attack(name: str, target: Target, seconds: float) -> AsyncIterator[Attack]:
    """In force from the beginning of the block to its end."""
    made, process = Attack(), await _started(name, target.dumped(), str(seconds))
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_TAKES_HOLD):
            await process.stdout.readline()
        yield made
        process.stdin.close()
        async with asyncio.timeout(15):
            made.report = json.loads(await process.stdout.readline() or "{}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _started(*words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", _MODULE, *words, stdin=pipe, stdout=pipe, env=environment()
    )
