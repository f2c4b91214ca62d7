"""A role of ours as a child process: what to run, and how it is told to end."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.embedded import process


class Child:
    """One program. `ready` asks whether it does its work yet; without it, running is ready enough."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = environment
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def launch(self) -> None:
        self._process = process.spawn(self._command, log=self.log, environment=self._environment)

    def ready(self) -> bool:
        return self._ready()

    def exited(self) -> bool:
        """Started by us, and gone without being asked."""
        return self._process is not None and self._process.poll() is not None

    def stop(self, *, seconds: float, at_once: Callable[[], bool] = lambda: False) -> bool:
        """False when it had to be killed."""
        stopped, self._process = self._process, None
        return stopped is None or process.stop(stopped, signal.SIGTERM, seconds=seconds, at_once=at_once)
