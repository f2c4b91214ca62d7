"""Limits how many requests of a merchant are worked on at a time, so that another merchant's are not the last of many.

All requests of a process share its event loop: one merchant with 150 busy connections would make every step of another
wait for 150. A merchant that is alone may have many turns; beside others it has two, and the rest of its
requests wait, unread, in the order they came. A turn is given back by whoever waits for its client, and by whoever has
had it for long: that one waits for something else than the event loop.
"""

import asyncio
import time
from collections import Counter, deque
from types import TracebackType
from typing import Self

from penstock.kernel.clock import Clock

STRANGERS = ""  # whose turns those take who have shown no token; there is no merchant of this id
_ALONE, _BESIDE_OTHERS = 32, 2
LONGEST_SECONDS = 0.05  # of a request that does not wait for its client
_SHORTEST_PAUSE = 0.004  # what a request costs before it has its turn, and after it, is not counted by it
_STRANGERS_SECONDS = 0.005
_SEEN_SECONDS = 1.0  # a merchant that sends one file after the other is there in between as well
_MOST_SEEN = 1000


class Turns:
    """The turns of all merchants in one process and one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._seen: dict[str, float] = {}  # the latest last

    def of(self, merchant_id: str, *, is_paced: bool = False) -> "Turn":
        """A turn; a paced one is followed by a pause, so that one owner has at most half of the event loop's time."""
        return Turn(self, merchant_id, is_paced)

    async def take(self, merchant_id: str) -> None:
        self._see(merchant_id)
        queue = self._waiting.get(merchant_id)
        if not queue and self._held[merchant_id] < self.most(merchant_id):
            self._held[merchant_id] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(merchant_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came, and nobody wants it any more
                self.give(merchant_id)
            raise

    def give(self, merchant_id: str, pause: float = 0.0) -> None:
        """Beside others, the next one has the turn after the pause."""
        if pause and self.most(merchant_id) == _BESIDE_OTHERS:
            asyncio.get_running_loop().call_later(pause, self._pass_on, merchant_id)
        else:
            self._pass_on(merchant_id)

    def _pass_on(self, merchant_id: str) -> None:
        self._held[merchant_id] -= 1
        queue = self._waiting.get(merchant_id, deque())
        while queue and self._held[merchant_id] < self.most(merchant_id):
            turn = queue.popleft()
            if not turn.done():
                self._held[merchant_id] += 1
                turn.set_result(None)
        if not queue:
            self._waiting.pop(merchant_id, None)
        if not self._held[merchant_id]:
            del self._held[merchant_id]

    def most(self, merchant_id: str) -> int:
        """How many turns the merchant may have now; at least one, so whoever waits has its turn in the end."""
        if merchant_id == STRANGERS:
            return _BESIDE_OTHERS
        if len(self._held) > (merchant_id in self._held) + (STRANGERS in self._held):
            return _BESIDE_OTHERS
        since = self._clock.monotonic() - _SEEN_SECONDS
        for other in reversed(self._seen):
            if self._seen[other] < since:
                break
            if other != merchant_id:
                return _BESIDE_OTHERS
        return _ALONE

    def _see(self, merchant_id: str) -> None:
        if merchant_id == STRANGERS:  # a health check makes nobody wait
            return
        self._seen.pop(merchant_id, None)
        self._seen[merchant_id] = self._clock.monotonic()
        if len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]


class Turn:
    """One request's. Given back while the request waits for its client, and taken again."""

    def __init__(self, turns: Turns, merchant_id: str, is_paced: bool) -> None:
        self._turns = turns
        self._is_paced = is_paced
        self._merchant_id = merchant_id
        self._is_held = False
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_held(self) -> bool:
        return self._is_held

    async def take(self) -> None:
        if not self._is_held:
            await self._turns.take(self._merchant_id)
            self._is_held, self._since = True, time.monotonic()

    def give_after(self, seconds: float) -> None:
        """Give it back by then at the latest."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.give)

    def give(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_held:
            self._is_held = False
            used = time.monotonic() - self._since
            pause = min(max(used, _SHORTEST_PAUSE), LONGEST_SECONDS)
            self._turns.give(self._merchant_id, pause if self._is_paced else 0.0)

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give()


async def wait_as_stranger(turns: Turns) -> None:
    """Keep back an answer that was quick to give: whoever asks again at once asks no more often than this allows."""
    async with turns.of(STRANGERS):
        await asyncio.sleep(_STRANGERS_SECONDS)
