"""Where a person types commands of `penstock`: run to their end, started, or in a terminal of their own."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.programs import environment
from tests.support.terminals import Terminal


class Shell:
    """`before` and `after` go around what is typed: which command, and where it finds its server."""

    def __init__(self, directory: Path, before: Sequence[str] = (), after: Sequence[str] = (), **env: str) -> None:
        self._before, self._after = before, after
        self.notes = directory / "state" / "penstock" / "uploads"
        self.env = environment(XDG_STATE_HOME=str(directory / "state"), **env)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "penstock", *self._before, *arguments, *self._after]

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        return subprocess.run(command, env=self.env | env, capture_output=True, text=True, timeout=60, check=False)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments), env=self.env | env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def chinese(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(*arguments, LANG="zh_CN.UTF-8")

    @contextmanager
    def terminals(self) -> Iterator[Callable[..., Terminal]]:
        """Opens one for each command that is typed, and closes them all."""
        opened: list[Terminal] = []

        def start(*arguments: str) -> Terminal:
            opened.append(Terminal(self.command(*arguments), self.env))
            return opened[-1]

        try:
            yield start
        finally:
            for each in opened:
                each.close()
