"""Starting and stopping a process that must not outlive us and must not share our Ctrl-C.

Each gets a session of its own (a terminal's Ctrl-C reaches only the supervisor, which stops things in
order) and a death signal (on Linux: when the supervisor is killed, the kernel tells the process to end).
Where that is missing, the next start finds the leftover by its recorded pid. The death signal belongs to
the thread that started the process, so only the main thread may call `spawn`.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from penstock.embedded.accounts import Account
from penstock.embedded.failure import EmbeddedFailure, cannot_use, disk_full

_PR_SET_PDEATHSIG = 1
_SERVERS_NEED = ("PATH", "HOME", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    account: Account | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in its own session; it gets `death_signal` when we die."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                preexec_fn=entering(account, death_signal),  # noqa: PLW1509  system calls only, and we run one thread
                env=environment,
            )
    except OSError as failure:
        raise cannot_use(Path(failure.filename or log), failure) from failure


def server_environment() -> dict[str, str]:
    """What PostgreSQL and Redis get: our settings may be secret, a terminal's locale or PG* would change their ways."""
    return {name: os.environ[name] for name in _SERVERS_NEED if name in os.environ} | {"LC_ALL": "C"}


def entering(account: Account | None, death_signal: signal.Signals) -> Callable[[], None]:
    """What a new process runs before its program: take on the account, ask the kernel for a signal at our death."""
    us = os.getpid()

    def enter() -> None:
        if account is not None:
            account.become()  # first: a change of account clears the death signal
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal))
            if os.getppid() != us:  # we died before the kernel knew
                os._exit(1)

    return enter


class Process:
    """A program of ours, running or not. Subclasses start it and put it into `_process`."""

    _stop_signal = signal.SIGTERM
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def exited(self) -> bool:
        """Started by us, and gone without being asked."""
        return self._process is not None and self._process.poll() is not None

    def stop(self, *, seconds: float = 20, at_once: Callable[[], bool] = lambda: False) -> bool:
        """False when it had to be killed."""
        stopped, self._process = self._process, None
        in_time = stopped is None or stop(stopped, self._stop_signal, seconds=seconds, at_once=at_once)
        self.tidy()
        return in_time

    def tidy(self) -> None:
        """Remove what it leaves outside the data directory."""

    def kill(self) -> None:
        """As a power cut would: nothing is flushed, and the whole process group goes."""
        if self._process is not None:
            kill(self._process)
            self._process = None


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], *, seconds: float, log: Path) -> None:
    """Poll until the server answers; its last log lines explain a failure."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise stopped_while_starting(name_of(process), log)
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise EmbeddedFailure(
                f"{name_of(process)} did not answer within {seconds:.0f} s; see {log}.",
                f"{name_of(process)} 在 {seconds:.0f} 秒内没有响应；请查看 {log}。",
                detail=tail(log),
            )
        time.sleep(0.02)


def stopped_while_starting(name: str, log: Path) -> EmbeddedFailure:
    last = tail(log)
    if "No space left on device" in last:
        return disk_full(log.parent.parent)
    return EmbeddedFailure(
        f"{name} stopped while starting; the end of {log} says:", f"{name} 启动时退出；{log} 末尾内容：", detail=last
    )


def stop(
    process: subprocess.Popen[bytes],
    how: signal.Signals,
    *,
    seconds: float,
    at_once: Callable[[], bool] = lambda: False,
) -> bool:
    """Ask, wait, and only then kill, with everything in its session; False when it had to be killed."""
    deadline = time.monotonic() + seconds
    if process.poll() is None:
        process.send_signal(how)
    while process.poll() is None:
        if time.monotonic() > deadline or at_once():
            kill(process)
            return False
        time.sleep(0.02)
    return True


def kill(process: subprocess.Popen[bytes]) -> None:
    """As a power cut would: nothing is flushed, and the whole process group goes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def tail(log: Path, lines: int = 8) -> str:
    try:
        with log.open("rb") as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - 8192))
            return "\n".join(source.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def name_of(process: subprocess.Popen[bytes]) -> str:
    args = process.args
    return Path(str(args[0] if isinstance(args, list | tuple) else args)).name


def end_leftover(
    pid: int, how: signal.Signals, *, is_ours: Callable[[psutil.Process], bool], seconds: float = 15
) -> None:
    """End a process of an earlier start, unless its number has gone to a stranger since."""
    try:
        found = psutil.Process(pid)
        if not is_ours(found):
            return
        found.send_signal(how)
        found.wait(seconds)
    except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
        return
    except psutil.TimeoutExpired:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.kill()
            found.wait(seconds)


def works_in(directory: Path) -> Callable[[psutil.Process], bool]:
    """Tells a server by its working directory, which is its data directory."""
    return lambda found: found.status() != psutil.STATUS_ZOMBIE and bool(found.cwd() == str(directory.resolve()))


def born_at(moment: float) -> Callable[[psutil.Process], bool]:
    """Tells a process from a later one that was given the same number."""
    return lambda found: bool(abs(found.create_time() - moment) < 2)


def kill_whatever_works_in(directory: Path, *, name: str, patience: float = 1) -> None:
    """Orphans of a killed server notice by themselves; the ones that are too busy to are killed."""
    deadline = time.monotonic() + patience
    while orphans := [found for found in psutil.process_iter(["name"]) if _is_orphan(found, directory, name)]:
        if time.monotonic() > deadline:
            for orphan in orphans:
                with contextlib.suppress(psutil.NoSuchProcess):
                    orphan.kill()
        time.sleep(0.05)


def _is_orphan(found: psutil.Process, directory: Path, name: str) -> bool:
    try:
        return found.info["name"] == name and works_in(directory)(found)
    except psutil.Error:
        return False
