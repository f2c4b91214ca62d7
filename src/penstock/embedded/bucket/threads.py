"""Blocking work in threads of our own, carried to its end even when whoever waits for it is cut off."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")
_THREADS = ThreadPoolExecutor(16, thread_name_prefix="bucket")


async def in_thread(work: Callable[..., Made], *arguments: object) -> Made:
    """Half a write would not know of itself, so a cut-off waits too."""
    running = asyncio.get_running_loop().run_in_executor(_THREADS, lambda: work(*arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
