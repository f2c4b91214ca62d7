"""Processes by the dozen: one process imports everything once and forks; each child is a process like any other.

`python -m tests.chaos.nursery MODULE` reads a line for each wish from its input: start one (its environment and where
its output goes), or tell how one has ended. When the input ends, so do all children.
"""

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.kernel import failpoints


class Child:
    """As much of `subprocess.Popen` as tests need."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self._nursery, self.pid = nursery, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Nursery:
    def __init__(self, module: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.nursery", module],
            cwd=Path(__file__).parents[2], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start(self, log: Path, environment: dict[str, str]) -> Child:
        return Child(self, self.ask(start=environment, log=str(log)))

    def ask(self, **wish: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wish) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        with self._process:  # closes its input, waits, closes its output
            pass


def _become(module: Any, environment: dict[str, str], log: str) -> None:
    """In the child: whatever is read from the environment at the start is read now."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(environment)
    failpoints.arm(os.environ.get("PENSTOCK_FAILPOINT", ""))
    asyncio.run(module.main())


def _fork(module: Any, wish: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _become(module, wish["start"], wish["log"])
        code = 0
    except BaseException:  # noqa: BLE001  a child never gets back into its parent's loop
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(name: str) -> None:
    module = importlib.import_module(name)
    alive: set[int] = set()
    for line in sys.stdin:
        wish = json.loads(line)
        answer: int | None
        if "start" in wish:
            answer = _fork(module, wish)
            alive.add(answer)
        else:
            pid, status = os.waitpid(wish["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            if pid:
                alive.discard(pid)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
