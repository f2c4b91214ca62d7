"""Keeps servers and children running, and ends them in order.

Parts are started in the order given and stopped in the reverse order, so that whoever uses a part leaves
before it does. A part that ends without being asked is started again: at once the first time, then after
waits that double, and for ever at the longest wait: what ends it (a full disk, a port that is taken) may pass, and
nobody may be there to start it by hand. The others go on meanwhile.

The supervisor itself holds nothing that must last. Killed at any moment, it leaves a directory from which
the next start recovers.
"""

import time
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
    KEEPS_ENDING = "keeps_ending"  # said once; tried again every `seconds`
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
    """How long to wait before a part is started again, by how often it has ended since it last stayed up."""

    crashes: int = 5  # from this one on it keeps ending
    within: float = 60  # seconds; one that has stayed up for longer starts afresh
    first_wait: float = 0.25
    longest_wait: float = 15

    def wait(self, crashes: int) -> float:
        if crashes >= self.crashes:
            return self.longest_wait
        return 0 if crashes <= 1 else min(self.longest_wait, self.first_wait * 2 ** (crashes - 2))


class Supervised:
    """A part, and the memory of its crashes."""

    def __init__(self, name: str, part: Part) -> None:
        self.name = name
        self.part = part
        self.due: float | None = None  # when to start it again
        self.returned: float | None = None  # when it was started again, until that is said
        self.crashes = 0
        self._launched = 0.0

    def launched(self, now: float) -> None:
        self._launched = now

    def crashed(self, now: float, patience: Patience) -> float:
        """Seconds to wait before the next start."""
        self.crashes = 1 if now - self._launched > patience.within else self.crashes + 1
        return patience.wait(self.crashes)

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
        supervised.launched(time.monotonic())
        supervised.part.launch()
        if supervised.part.pid is not None:
            self._started(supervised.name, supervised.part.pid)

    def _look_at(self, supervised: Supervised, now: float) -> None:
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
        supervised.due, supervised.returned = now + wait, None
        if supervised.crashes < self._patience.crashes:
            self._tell(Notice(What.ENDED, supervised.name, wait))
        elif supervised.crashes == self._patience.crashes:
            self._tell(Notice(What.KEEPS_ENDING, supervised.name, wait))


def _not_ready(supervised: Supervised, seconds: float) -> EmbeddedFailure:
    log = supervised.part.log
    return EmbeddedFailure(
        f"{supervised.name} was not ready within {seconds:.0f} s; see {log}.",
        f"{supervised.name} 在 {seconds:.0f} 秒内未就绪；请查看 {log}。",
    )
