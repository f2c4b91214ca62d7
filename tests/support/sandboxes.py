"""Sandboxes for tests: quick to give up, with the functions that misbehave on their path."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.kernel.sandbox import Limits, Sandbox, SandboxSettings

SUPPORT = Path(__file__).parent
MiB = 1 << 20
QUICK = Limits(wall_seconds=60, cpu_seconds=10)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the system call filter and file rules are Linux's")


def make(**settings: Any) -> Sandbox:
    return Sandbox(SandboxSettings(**{"workers": 1, **settings}), preload=("hostile",), paths=(SUPPORT,))


async def until(condition: Any, seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
