"""Keeps servers and children running, and ends them in order.

Parts are started in the order given and stopped in the reverse order, so that whoever uses a part leaves
before it does. A part that ends without being asked is started again: at once the first time, then after
waits that double. One that keeps ending is left alone and said so; the others go on. A server that others
depend on is never given up, only retried at the longest wait.

The supervisor itself holds nothing that must last. Killed at any moment, it leaves a directory from which
the next start recovers.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from penstock.embedded.failure import EmbeddedFailure
from penstock.embedded.logs import cap
from penstock.embedded.process import stopped_while_starting
from penstock.embedded.stopping import StopRequests

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_CAPS = 10
_LEAST_SECONDS_TO_STOP = 3.0


class Part(Protocol):
    """What the supervisor asks of a server or a child."""

    @property
    def pid(self) -> int | None: ...

    @property
    def log(self) -> Path: ...

    def launch(self) -> None: ...

    def ready(self) -> bool: ...

    def exited(self) -> bool: ...

    def stop(self, *, seconds: float, at_once: Callable[[], bool]) -> bool: ...


class What(StrEnum):
    """What happened to a part."""

    STARTING = "starting"
    READY = "ready"
    ENDED = "ended"  # without being asked; started again after `seconds`
    BACK = "back"  # runs again
    GIVEN_UP = "given_up"  # ended too often
    STOPPING = "stopping"  # this one first, then the others
    STOPPED = "stopped"
    KILLED = "killed"  # did not stop in time


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell the person at the terminal."""

    what: What
    name: str
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a part may end, and how long to wait before it is started again."""

    crashes: int = 5
    within: float = 60
    first_wait: float = 0.25
    longest_wait: float = 15

    def wait(self, recent: int) -> float:
        return 0 if recent <= 1 else min(self.longest_wait, self.first_wait * 2 ** (recent - 2))


class Supervised:
    """A part, and the memory of its crashes."""

    def __init__(self, name: str, part: Part, *, vital: bool = False) -> None:
        self.name = name
        self.part = part
        self.vital = vital  # others cannot work without it: never given up
        self.due: float | None = None  # when to start it again
        self.given_up = False
        self.returned: float | None = None  # when it was started again, until that is said
        self._crashes: deque[float] = deque()

    def crashed(self, now: float, patience: Patience) -> float | None:
        """Seconds to wait before the next start; None when it has ended too often."""
        self._crashes.append(now)
        while self._crashes[0] < now - patience.within:
            self._crashes.popleft()
        recent = len(self._crashes)
        if recent < patience.crashes:
            return patience.wait(recent)
        return patience.longest_wait if self.vital else None

    def is_back(self, now: float) -> bool:
        """Started again, and lasting; one that ends within a second was never back."""
        return self.returned is not None and now - self.returned > 1 and self.part.ready()


class Supervisor:
    """Start, watch, stop. Everything runs on the main thread: children are tied to the thread that starts them."""

    def __init__(
        self,
        requests: StopRequests,
        *,
        tell: Callable[[Notice], None],
        started: Callable[[str, int], None] = lambda _name, _pid: None,
        patience: Patience = Patience(),  # noqa: B008  frozen
    ) -> None:
        self._requests = requests
        self._tell = tell
        self._started = started
        self._patience = patience
        self._parts: list[Supervised] = []

    def start(self, parts: Sequence[Supervised], *, seconds: float) -> None:
        """Launch these side by side and wait until all are ready; one that ends meanwhile is a failure."""
        for each in parts:
            self._tell(Notice(What.STARTING, each.name))
            self._parts.append(each)
            self._launch(each)
        deadline = time.monotonic() + seconds
        waiting = list(parts)
        while waiting:
            for each in list(waiting):
                if each.part.exited():
                    raise stopped_while_starting(each.name, each.part.log)
                if each.part.ready():
                    waiting.remove(each)
                    self._tell(Notice(What.READY, each.name))
            if waiting and time.monotonic() > deadline:
                raise _not_ready(waiting[0], seconds)
            if waiting:
                self._requests.wait(0.03)

    def watch(self, *, each_look: Callable[[], None] = lambda: None) -> None:
        """Until asked to stop: start again what ends."""
        capped = time.monotonic()
        while not self._requests.asked:
            self._requests.wait(_SECONDS_BETWEEN_LOOKS)
            for supervised in self._parts:
                if not self._requests.asked:
                    self._look_at(supervised, time.monotonic())
            each_look()
            if time.monotonic() - capped > _SECONDS_BETWEEN_CAPS:
                capped = time.monotonic()
                for supervised in self._parts:
                    cap(supervised.part.log)

    def stop(self, *, seconds: float) -> bool:
        """Stop in reverse order, sharing one time limit; True when nothing had to be killed."""
        deadline = time.monotonic() + seconds
        clean = True
        running = [each.name for each in self._parts if each.part.pid is not None and not each.part.exited()]
        if running:
            self._tell(Notice(What.STOPPING, running[-1]))
        while self._parts:
            supervised = self._parts.pop()
            if supervised.part.pid is None or supervised.part.exited():
                supervised.part.stop(seconds=0, at_once=lambda: True)
                continue
            left = max(_LEAST_SECONDS_TO_STOP, deadline - time.monotonic())
            ended = supervised.part.stop(seconds=left, at_once=self._requests.at_once)
            self._tell(Notice(What.STOPPED if ended else What.KILLED, supervised.name))
            clean = clean and ended
        return clean

    def _launch(self, supervised: Supervised) -> None:
        supervised.part.launch()
        if supervised.part.pid is not None:
            self._started(supervised.name, supervised.part.pid)

    def _look_at(self, supervised: Supervised, now: float) -> None:
        if supervised.given_up:
            return
        if supervised.due is None and supervised.part.exited():
            self._plan_restart(supervised, now)
        elif supervised.due is None and supervised.is_back(now):
            supervised.returned = None
            self._tell(Notice(What.BACK, supervised.name))
        if supervised.due is not None and now >= supervised.due:
            supervised.due, supervised.returned = None, now
            try:
                self._launch(supervised)
            except EmbeddedFailure:
                self._plan_restart(supervised, now)

    def _plan_restart(self, supervised: Supervised, now: float) -> None:
        wait = supervised.crashed(now, self._patience)
        supervised.returned = None
        if wait is None:
            supervised.given_up = True
            self._tell(Notice(What.GIVEN_UP, supervised.name))
            return
        supervised.due = now + wait
        self._tell(Notice(What.ENDED, supervised.name, wait))


def _not_ready(supervised: Supervised, seconds: float) -> EmbeddedFailure:
    log = supervised.part.log
    return EmbeddedFailure(
        f"{supervised.name} was not ready within {seconds:.0f} s; see {log}.",
        f"{supervised.name} 在 {seconds:.0f} 秒内未就绪；请查看 {log}。",
    )
