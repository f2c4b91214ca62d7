"""Work that Ctrl-C, SIGTERM or a closed terminal ends: it is cancelled, cleans up after itself, and the exit code is
130."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_interruptibly(work: Coroutine[Any, Any, T]) -> T:
    async def ended_by_signals() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  asyncio.run makes one
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:  # nohup
                continue
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread: nobody can signal us
                loop.add_signal_handler(number, task.cancel)
        return await work

    try:
        return asyncio.run(ended_by_signals())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
