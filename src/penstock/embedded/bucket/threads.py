"""Blocking work in threads, carried to its end even when whoever waits for it is cut off; uploaders take turns.

Whose work it is stands beside the task that does it (`work_for`), as everything that touches the disk would have to be
told otherwise.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from penstock.kernel.clock import Clock
from penstock.kernel.fair_threads import FairThreads, finished
from penstock.kernel.turns import Turns

Made = TypeVar("Made")
STRANGERS, ITSELF = "/strangers", "/itself"  # no uploader has a slash in its name
_THREADS, _OWN_THREADS = 16, 4


class FairWork:
    """The turns and threads of one bucket."""

    def __init__(self, clock: Clock) -> None:
        self.turns = Turns(clock)
        self.threads = FairThreads(_THREADS, share=self._share, name="bucket")

    def close(self) -> None:
        self.threads.close()

    def _share(self, owner: str) -> int:
        """Threads at a time: all for an uploader that is alone; what the bucket does for everybody has a few."""
        return _OWN_THREADS if owner == ITSELF else max(1, self.turns.most(owner) // 2)


class OwnedWork:
    """The work of one request. It belongs to the strangers until its sender has shown a right, then to the uploader.

    What the bucket does by itself, in no request, waits for no turn.
    """

    def __init__(self, fair: FairWork, owner: str = STRANGERS) -> None:
        self._fair = fair
        self.owner = owner
        self._turn = None if owner == ITSELF else fair.turns.of(owner)

    async def hand_to(self, owner: str) -> None:
        """Makes it this owner's work and waits for the owner's turn."""
        self.give_turn()
        self.owner, self._turn = owner, self._fair.turns.of(owner)
        await self.take_turn()

    async def take_turn(self) -> None:
        """Nothing happens when it is held already."""
        if self._turn is not None:
            await self._turn.take()

    def give_turn(self) -> None:
        """To be done by whoever waits for a client, or for another request."""
        if self._turn is not None:
            self._turn.give()

    async def in_thread(self, work: Callable[..., Made], *arguments: object) -> Made:
        return await finished(self._fair.threads.run(self.owner, work, *arguments))


_WORK: ContextVar[OwnedWork] = ContextVar("bucket_work")


def work_for(work: OwnedWork) -> None:
    """Counts all that this task does afterwards, with the tasks that it starts, as part of this work."""
    _WORK.set(work)


def current_work() -> OwnedWork:
    return _WORK.get()


async def in_thread(work: Callable[..., Made], *arguments: object) -> Made:
    """Half a write would not know of itself, so a cut-off waits too."""
    return await _WORK.get().in_thread(work, *arguments)
