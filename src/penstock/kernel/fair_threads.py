"""Runs the blocking work of many merchants in one pool of threads, in turns.

A queue in the order of arrival would make a merchant with one file wait behind another's thousand. Here each merchant
has a queue of its own, the queues take turns, and no merchant has more than its share of the threads at a time, so
that there is one free when another comes.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")
Work = Callable[[], Any]


class FairThreads:
    """To be used from one event loop. `share`: threads that a merchant may have at this time, one at the least."""

    def __init__(self, threads: int, *, share: Callable[[str], int], name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._share = share
        self._idle = threads
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[tuple[asyncio.Future[Any], Work]]] = OrderedDict()

    def run(self, merchant_id: str, work: Callable[..., Result], *arguments: object) -> "asyncio.Future[Result]":
        """The outcome of the work, which begins when it is this merchant's turn."""
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(merchant_id, deque()).append((outcome, partial(work, *arguments)))
        self._begin()
        return outcome

    def close(self) -> None:
        self._pool.shutdown(wait=False)

    def _begin(self) -> None:
        while self._idle and (merchant_id := self._next()) is not None:
            queue = self._waiting[merchant_id]
            outcome, work = queue.popleft()
            if queue:
                self._waiting.move_to_end(merchant_id)
            else:
                del self._waiting[merchant_id]
            self._idle -= 1
            self._running[merchant_id] += 1
            try:
                running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            except RuntimeError as closed:
                self._ended(merchant_id)
                outcome.set_exception(closed)
            else:
                running.add_done_callback(partial(self._end, merchant_id, outcome))

    def _next(self) -> str | None:
        """Whose turn it is: the merchant that has waited longest, among those below their share."""
        return next((each for each in self._waiting if self._running[each] < self._share(each)), None)

    def _ended(self, merchant_id: str) -> None:
        self._idle += 1
        self._running[merchant_id] -= 1
        if not self._running[merchant_id]:
            del self._running[merchant_id]

    def _end(self, merchant_id: str, outcome: "asyncio.Future[Any]", running: "asyncio.Future[Any]") -> None:
        self._ended(merchant_id)
        if not outcome.done():
            if running.cancelled():
                outcome.cancel()
            elif failure := running.exception():
                outcome.set_exception(failure)
            else:
                outcome.set_result(running.result())
        self._begin()


async def finished(work: "asyncio.Future[Result]") -> Result:
    """Wait for a thread even when we are cancelled: a file must not be closed under its feet."""
    cancelled = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as cut:
            cancelled = cut
    if cancelled is not None:
        raise cancelled
    return work.result()
