"""What many want at once is done at once: while a group is under way, the next one gathers.

A lone wish never waits, and a crowd shares the price of a trip. Each gets its own answer; a group that fails as a
whole fails for all of its wishes. Who gives up waiting disturbs nobody else; a wish that nobody waits for any more
when its group begins is dropped.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

Wish = TypeVar("Wish")
Answer = TypeVar("Answer")
Fulfil = Callable[[list[Wish]], Coroutine[Any, Any, Sequence[Answer | Exception]]]


Waiting = list[tuple[Wish, "asyncio.Future[Answer]"]]


def _in_turns(waiting: "Waiting[Wish, Answer]", turn: Callable[[Wish], Hashable]) -> "Waiting[Wish, Answer]":
    """The first wish of each, then the second of each, and so on."""
    before: Counter[Hashable] = Counter()
    ranks = []
    for wish, _ in waiting:
        whose = turn(wish)
        ranks.append(before[whose])
        before[whose] += 1
    return [each for _, each in sorted(zip(ranks, waiting, strict=True), key=lambda ranked: ranked[0])]


class Together(Generic[Wish, Answer]):
    """`fulfil` answers a group in its order, an exception being the answer to one that failed alone."""

    def __init__(
        self,
        fulfil: Fulfil[Wish, Answer],
        *,
        most: int,
        at_once: int = 1,
        turn: Callable[[Wish], Hashable] | None = None,
    ) -> None:
        """`turn`: whose wish it is. When more wait than a group takes, each has its first in it before any second."""
        self._fulfil, self._most, self._at_once, self._turn = fulfil, most, at_once, turn
        self._waiting: list[tuple[Wish, asyncio.Future[Answer]]] = []
        self._groups: set[asyncio.Task[Sequence[Answer | Exception]]] = set()
        self._under_way = 0

    async def ask(self, wish: Wish) -> Answer:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((wish, answer))
        if self._under_way < self._at_once:
            self._under_way += 1
            loop.call_soon(self._begin)  # not at once: requests that were read together come together
        return await answer

    def _begin(self) -> None:
        wanted = [each for each in self._waiting if not each[1].done()]
        if self._turn is not None and len(wanted) > self._most:
            wanted = _in_turns(wanted, self._turn)
        group, self._waiting = wanted[: self._most], wanted[self._most :]
        if not group:
            self._under_way -= 1
            return
        self._groups.add(task := asyncio.create_task(self._fulfil([wish for wish, _ in group])))
        task.add_done_callback(partial(self._end, [answer for _, answer in group]))

    def _end(self, group: list[asyncio.Future[Answer]], task: asyncio.Task[Sequence[Answer | Exception]]) -> None:
        self._groups.discard(task)
        self._begin()
        failure = None if task.cancelled() else task.exception()
        if task.cancelled() or failure is not None:
            found: Sequence[Answer | BaseException] = [failure or asyncio.CancelledError()] * len(group)
        else:
            found = task.result()
        for answer, each in zip(group, found, strict=True):
            if answer.done():  # whoever asked has gone
                continue
            if isinstance(each, BaseException):
                answer.set_exception(each)
            else:
                answer.set_result(each)
