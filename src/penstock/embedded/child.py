"""A role of ours as a child process: what to run, and how it is told to end."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.embedded import process


class Child(process.Process):
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

    def launch(self) -> None:
        self._process = process.spawn(self._command, log=self.log, environment=self._environment)

    def ready(self) -> bool:
        return self._ready()
