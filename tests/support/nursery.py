"""Processes by the dozen: one process imports everything once and forks; each child is a process like any other.

`start` has a child run `main(*arguments)` of a module, `penstock` that of the command line. The process that forks
reads a line for each wish from its input: start one, or tell how one has ended. When the input ends, so do all
children.
"""

import asyncio
import atexit
import functools
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from penstock.kernel import failpoints
from tests.support.programs import ROOT, environment

PENSTOCK = "penstock.__main__"
_EDGES = (
    "penstock.api.server", "penstock.rpc.server", "penstock.worker", "penstock.bootstrap.etl", "uvloop",
    "penstock.embedded.bucket.server", "penstock.uploads.direct.adapters.gcs",
)  # fmt: skip


def start(module: str, *arguments: str, log: Path, env: dict[str, str]) -> "Child":
    """Its output is added to a file."""
    return Child(pid=_nursery().ask(start=module, arguments=arguments, env=env, log=str(log)))


def penstock(*arguments: str, log: Path, env: dict[str, str]) -> "Child":
    """As `python -m penstock`."""
    return start(PENSTOCK, *arguments, log=log, env=env)


class Child:
    """As much of `subprocess.Popen` as tests need."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = _nursery().ask(poll=self.pid)
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
    """One for all tests of this process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.nursery"],
            cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._one_asks = threading.Lock()

    def ask(self, **wish: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._one_asks:
            self._process.stdin.write(json.dumps(wish) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        with self._process:  # closes its input, waits, closes its output
            pass


@functools.cache
def _nursery() -> Nursery:
    made = Nursery()
    atexit.register(made.close)
    return made


def _become(wish: dict[str, Any]) -> None:
    """In the child: whatever is read from the environment at the start is read now."""
    output = os.open(wish["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(wish["env"])
    time.tzset()
    failpoints.arm(os.environ.get("PENSTOCK_FAILPOINT", ""))
    main = sys.modules[wish["start"]].main
    if wish["start"] == PENSTOCK:
        sys.argv = ["penstock", *wish["arguments"]]
        main()
    elif inspect.iscoroutinefunction(main):
        asyncio.run(main(*wish["arguments"]))
    else:
        main(*wish["arguments"])


def _fork(wish: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _become(wish)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001  a child never gets back into its parent's loop
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    for name in _EDGES:
        importlib.import_module(name)
    alive: set[int] = set()
    for line in sys.stdin:
        wish = json.loads(line)
        answer: int | None
        if "start" in wish:
            importlib.import_module(wish["start"])
            answer = _fork(wish)
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
    main()
