"""Client libraries that block, kept in threads of their own and opened by the first call."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Generic, Protocol, TypeVar

R = TypeVar("R")


class Closing(Protocol):
    def close(self) -> None: ...


Calls = TypeVar("Calls", bound=Closing)


class Threads(Generic[Calls]):
    """`opens` is run by the first call, in its thread: it imports for half a second and may ask the network."""

    def __init__(self, opens: Callable[[], Calls], name: str) -> None:
        self._opens, self._name = opens, name
        self._opening = Lock()
        self._calls: Calls | None = None
        self._pools: list[ThreadPoolExecutor] = []

    def pool(self, threads: int) -> ThreadPoolExecutor:
        self._pools.append(ThreadPoolExecutor(threads, self._name))
        return self._pools[-1]

    async def run(self, pool: ThreadPoolExecutor, call: Callable[[Calls], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: call(self._ready()))

    async def close(self) -> None:
        for pool in self._pools:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        if self._calls is not None:
            self._calls.close()

    def _ready(self) -> Calls:
        if self._calls is None:
            with self._opening:
                if self._calls is None:
                    self._calls = self._opens()
        return self._calls
