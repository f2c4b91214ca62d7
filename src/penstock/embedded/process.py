"""Starting and stopping a server that must not outlive us and must not share our Ctrl-C.

Each server gets a session of its own (a terminal's Ctrl-C reaches only the supervisor, which stops things
in order) and a death signal (on Linux: when the supervisor is killed, the kernel tells the server to shut
down). Where that is missing, the next start finds the leftover by its pid file.
"""

import ctypes
import hashlib
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_PR_SET_PDEATHSIG = 1


class EmbeddedFailure(Exception):
    """An embedded server cannot run; the message is a sentence for the person who started it."""


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged account that servers run under when we are root (PostgreSQL refuses root)."""

    uid: int
    gid: int


def unprivileged_account() -> Account | None:
    """None when we are not root: then servers run as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedFailure("running as root, and there is no account 'postgres' or 'nobody' to run PostgreSQL as")


def own(path: Path, account: Account | None) -> None:
    """Make a private directory that the server's account owns and can reach."""
    path.mkdir(parents=True, exist_ok=True)
    if account is not None and path.stat().st_uid != account.uid:
        os.chown(path, account.uid, account.gid)
    path.chmod(0o700)


def spawn(
    command: Sequence[str], *, log: Path, account: Account | None, death_signal: signal.Signals
) -> subprocess.Popen[bytes]:
    """Start a server in its own session; it gets `death_signal` when we die."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def tie_to_parent() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            preexec_fn=tie_to_parent,  # noqa: PLW1509  one async-signal-safe call, before any thread exists
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], *, seconds: float, log: Path) -> None:
    """Poll until the server answers; its last log lines explain a failure."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise EmbeddedFailure(f"{_name(process)} stopped while starting:\n{tail(log)}")
        if time.monotonic() > deadline:
            process.kill()
            raise EmbeddedFailure(f"{_name(process)} did not answer within {seconds:.0f} s:\n{tail(log)}")
        time.sleep(0.02)


def stop(process: subprocess.Popen[bytes], how: signal.Signals, *, seconds: float) -> None:
    """Ask, wait, and only then kill."""
    if process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def tail(log: Path, lines: int = 8) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def _name(process: subprocess.Popen[bytes]) -> str:
    args = process.args
    return Path(str(args[0] if isinstance(args, list | tuple) else args)).name


def short_path(wanted: Path) -> Path:
    """A Unix socket's path holds about 100 bytes: a deep data directory gets a short stand-in under /tmp."""
    if len(str(wanted)) <= 80:
        return wanted
    digest = hashlib.sha256(str(wanted).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"penstock-{digest}"


def stop_pid(pid: int, how: signal.Signals, *, name: str, seconds: float = 15) -> None:
    """End a leftover of an earlier start, but only if that pid still is such a server."""
    try:
        found = psutil.Process(pid)
        if found.name() != name:
            return
        found.send_signal(how)
        found.wait(seconds)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        found.kill()
        found.wait(seconds)
