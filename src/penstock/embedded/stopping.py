"""Being asked to stop, by Ctrl-C, SIGTERM or a closed terminal.

While starting, the first request interrupts whatever is going on (a long migration, a slow recovery) by an
exception. While running it ends the wait. Any further request means: at once.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from types import FrameType

_REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Asked to stop before the start was over."""


class StopRequests:
    """Counts the requests; `wait` sleeps until one comes, a child ends, or the time is up."""

    def __init__(self) -> None:
        self._count = 0
        self._interrupting = True
        self._wakeup, self._write_end = os.pipe()
        for end in (self._wakeup, self._write_end):
            os.set_blocking(end, False)

    @contextlib.contextmanager
    def listening(self) -> Iterator["StopRequests"]:
        before = {number: signal.signal(number, self._on_request) for number in _REQUESTS}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        previous = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._wakeup)
            os.close(self._write_end)

    def no_longer_interrupt(self) -> None:
        """From here on a request is looked at when it suits us."""
        self._interrupting = False

    @property
    def asked(self) -> bool:
        return self._count > 0

    def at_once(self) -> bool:
        return self._count > 1

    def wait(self, seconds: float) -> None:
        if select.select([self._wakeup], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, 4096)

    def _on_request(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._interrupting:
            self._interrupting = False
            raise Interrupted
