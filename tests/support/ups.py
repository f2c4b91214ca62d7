"""A `penstock up` that a test starts, reads, signals and stops."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.programs import environment

_ORDINARY = (
    "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
    # Only so that it can reach an interpreter that is installed in root's own directory.
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


class Up:
    """One run; everything it prints is kept in `said`."""

    def __init__(self, home: Path, *options: str, module: str = "tests.support.small_up", **extra: str) -> None:
        ports = [] if "--port" in options else ["--port", "0", "--grpc-port", "0", "--bucket-port", "0"]
        begin = [] if module == "tests.support.small_up" else ["up"]
        self._start([sys.executable, "-m", module, *begin, "--data", str(home), *ports, *options], extra)
        self.home = home

    def _start(self, command: list[str], extra: dict[str, str]) -> None:
        if extra.pop("as_ordinary_user", ""):
            if os.geteuid() == 0 and not shutil.which("setpriv"):
                pytest.skip("there is no setpriv to become an ordinary user with")
            command = [*_ORDINARY, *command] if os.geteuid() == 0 else command
        self.said = ""
        self.process = subprocess.Popen(
            command,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(COLUMNS="200", PYTHONDONTWRITEBYTECODE="1", **extra),
        )

    @property
    def address(self) -> str:
        return re.search(r"http://\S+:\d+", self.said)[0]

    def until(self, text: str) -> "Up":
        """Read on until it says this; a run that ends before is a failure."""
        for line in self.process.stdout:
            self.said += line
            if text in line:
                return self
        pytest.fail(f"it ended without saying {text!r}:\n{self.said}")

    def ready(self) -> "Up":
        return self.until("Ctrl-C")

    def end(self, how: signal.Signals = signal.SIGTERM, *, seconds: float = 30) -> int:
        """Signal it, read the rest, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.result(seconds=seconds)

    def result(self, *, seconds: float = 30) -> int:
        try:
            rest, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            rest, _ = self.process.communicate()
            pytest.fail(f"it did not end within {seconds} s:\n{self.said}{rest}")
        self.said += rest
        return self.process.returncode

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)
