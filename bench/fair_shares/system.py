"""A whole `penstock up` in a temporary directory that is gone afterwards."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from penstock.kernel.identity import Caller, Role, issue_token

_SECRET = "a secret of at least thirty-two bytes"
_START_SECONDS, _STOP_SECONDS = 120, 40
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """Where the system listens, and what signs its tokens: all that a client needs, also in another process."""

    http: int
    grpc: int
    bucket: int
    secret: str = _SECRET

    def token(self, merchant: str, role: Role = Role.UPLOADER) -> str:
        return issue_token(self.secret, Caller(f"user-of-{merchant}", merchant, role), timedelta(hours=1))

    def dumped(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class System:
    """A running one."""

    target: Target
    pid: int

    def cpu_seconds(self) -> float:
        """Processor time of all its processes so far; of those that have ended only as far as a parent knows it."""
        total = 0.0
        for process in [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total


@contextmanager
def running_system() -> Iterator[System]:
    """Started as its users start it. One setting differs for the sake of the benchmark: webhooks may go to loopback."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the servers' own account must get in
        home, output = Path(name) / "home", Path(name) / "output"
        with output.open("wb") as written:
            up = subprocess.Popen(
                _command(home), env=environment(), stdout=written, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            _until_ready(up, output)
            lock = json.loads((home / "lock").read_text())
            yield System(Target(lock["port"], lock["grpc_port"], lock["bucket_port"]), up.pid)
        finally:
            _stop(up)


def _command(home: Path) -> list[str]:
    ports = [word for name in ("--port", "--grpc-port", "--bucket-port") for word in (name, "0")]
    return [sys.executable, "-m", "penstock", "up", "--data", str(home), *ports]


def environment() -> dict[str, str]:
    """With the caller's limits, if any are set, but without servers and stores of its own."""
    elsewhere = ("DIRECT_", "BUCKET_", "PENSTOCK_STORE_URL", "PENSTOCK_JWT_", "PENSTOCK_LLM_", "LC_", "LANG")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(elsewhere)}
    paths = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
    return plain | {
        "PYTHONPATH": paths, "LANG": "C.UTF-8", "COLUMNS": "200", "PENSTOCK_JWT_SECRET": _SECRET,
        "PENSTOCK_WEBHOOK_ALLOW_PRIVATE": "true",
    }  # fmt: skip


def _until_ready(up: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while "Ctrl-C" not in output.read_text():
        if up.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"penstock up did not start: {output.read_text()[-2000:]}")
        time.sleep(0.1)


def _stop(up: subprocess.Popen[bytes]) -> None:
    """In order, or by force: nothing may be left running."""
    try:
        below = psutil.Process(up.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    up.send_signal(signal.SIGTERM)
    try:
        up.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        up.kill()
        up.wait()
    for process in below:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
