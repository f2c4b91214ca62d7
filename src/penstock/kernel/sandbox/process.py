"""One worker process as its parent sees it: start it, make a call, end it.

The parent trusts nothing the worker says: answers are length-limited msgpack of a known shape, numbered, and
the wall clock is kept here. Any ending but a clean one means that the process is not used again.
"""

import asyncio
import itertools
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import psutil

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox.channel import Channel, ChannelClosed, FrameTooLarge
from penstock.kernel.sandbox.outcome import Ending, Limits, Outcome
from penstock.kernel.sandbox.seccomp import filter_for
from penstock.kernel.sandbox.settings import SandboxSettings

Value = TypeVar("Value")

_PROGRAM = Path(__file__).with_name("worker.py")
_IS_LINUX = sys.platform == "linux"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MOST_FILES = 16  # with one call; worker.py keeps room for so many
_ANSWER_ROOM = 4096  # an answer is the result and a few short fields
# What native libraries look for. Named one by one: a settings file with secrets may lie beside any of them.
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share",
    "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/dev/urandom", "/dev/zero",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip


class Strength(StrEnum):
    """What the operating system enforces around a worker."""

    FULL = "full"  # limits, system call filter, file rules
    NO_FILE_RULES = "no_file_rules"  # Linux before 5.13: it can read what its account can read
    LIMITS_ONLY = "limits_only"  # not Linux, or no filter for this machine: limits and the wall clock only


class _Ready(msgspec.Struct):
    error: str = ""
    file_rules: bool = False
    filter: bool = False


class _Answer(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    number: int
    ending: Ending
    error: str
    message: str
    clean: bool
    value: msgspec.Raw


_answers = msgspec.msgpack.Decoder(_Answer)
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """What every worker of a pool is started with."""

    settings: SandboxSettings
    limits: Limits
    preload: tuple[str, ...]
    paths: tuple[str, ...]  # where modules are found; readable inside
    directory: Path  # of the pool; each worker gets one of its own in it


class Worker:
    """A warm process. After `usable` turns false it is only good for `end`."""

    def __init__(self, plan: Plan) -> None:
        """Start the process, or SANDBOX_UNAVAILABLE with the reason. From here on `end` must be called."""
        with ExitStack() as undo:
            try:
                self._said = undo.enter_context(tempfile.TemporaryFile())
                own, others = socket.socketpair()
                undo.callback(own.close)
                with others:
                    self._directory = Path(tempfile.mkdtemp(dir=plan.directory))
                    self._process = _spawn(plan, self._directory, others.fileno(), self._said)
            except OSError as failure:  # out of processes, descriptors, disk
                raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=str(failure)) from failure
            undo.pop_all()
        self._plan = plan
        self._channel = Channel(own)
        self._seen: psutil.Process | None = None
        self._idle_memory = 0
        self._lingered = False
        self._is_ended = False
        self._in_use = asyncio.Lock()
        self.calls = 0
        self.usable = True
        self.strength = Strength.LIMITS_ONLY

    async def get_ready(self) -> None:
        """Locked in and loaded, or SANDBOX_UNAVAILABLE with the reason."""
        try:
            async with self._in_use, asyncio.timeout(self._plan.settings.start_seconds):
                ready = await self._greet()
        except (TimeoutError, ChannelClosed, FrameTooLarge, msgspec.DecodeError) as failure:
            self._said.seek(0)
            reason = self._said.read()[-500:].decode(errors="replace") or f"it did not answer ({failure!r})"
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=reason) from failure
        if ready.error:
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=ready.error)
        if ready.filter:
            self.strength = Strength.FULL if ready.file_rules else Strength.NO_FILE_RULES
        self._said.close()
        self._idle_memory = self._memory()

    async def _greet(self) -> _Ready:
        limits = self._plan.limits
        start = {
            "parent": os.getpid(),
            "preload": self._plan.preload,
            "readable": (*self._plan.paths, sys.base_prefix, sys.prefix, *_SYSTEM),
            "filter": filter_for(self._process.pid),
            "account": _nobody() if os.geteuid() == 0 else None,
            "memory": limits.memory,
            "file_bytes": limits.file_bytes,
            "open_files": limits.open_files,
        }
        await self._channel.send(msgspec.msgpack.encode(start))
        return msgspec.msgpack.decode(await self._channel.receive(_ANSWER_ROOM), type=_Ready)

    async def call(self, call: "Call", returns: type[Value]) -> Outcome[Value]:
        """Any ending is an outcome, but our own: SANDBOX_UNAVAILABLE if `end` came meanwhile, or cancellation."""
        self.calls += 1
        self.usable = False  # until proven otherwise
        limits = call.limits
        try:
            async with self._in_use, asyncio.timeout(limits.wall_seconds):
                await self._channel.send(call.body, call.descriptors)
                body = await self._channel.receive(limits.result_bytes + _ANSWER_ROOM)
        except TimeoutError:
            self.kill()
            return Outcome(Ending.TIMED_OUT, message=f"killed after {limits.wall_seconds:g} s")
        except FrameTooLarge:
            return Outcome(Ending.RESULT_TOO_LARGE, message=f"more than the {limits.result_bytes} bytes allowed")
        except ChannelClosed:
            status = await self._status()
            if self._is_ended and status == -signal.SIGKILL:
                raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason="the sandbox was closed") from None
            return Outcome(Ending.GARBLED, message="closed its line") if self._lingered else _ended(status)
        return self._read(body, call.number, returns)

    def _read(self, body: memoryview, number: int, returns: type[Value]) -> Outcome[Value]:
        try:
            answer = _answers.decode(body)
            if answer.number != number:
                return Outcome(Ending.GARBLED, message="an answer to another call")
            value = msgspec.msgpack.decode(answer.value, type=returns) if answer.ending is Ending.RETURNED else None
        except (msgspec.DecodeError, RecursionError, ValueError) as wrong:
            return Outcome(Ending.GARBLED, message=str(wrong))
        self.usable = answer.clean
        return Outcome(answer.ending, value, answer.error, answer.message)

    def is_fit(self) -> bool:
        """Whether it is still there and waits for a call; it may have been killed, or begun to babble, while idle."""
        self.usable = self.usable and self._channel.is_quiet()
        return self.usable

    def grown_beyond(self, growth: int) -> bool:
        """Whether it holds on to that much more memory than when it was new."""
        return self._memory() - self._idle_memory > growth

    def _memory(self) -> int:
        try:
            if _IS_LINUX:  # after each call: quicker than asking for all that psutil knows
                return int(Path(f"/proc/{self._process.pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
            self._seen = self._seen or psutil.Process(self._process.pid)
            return int(self._seen.memory_info().rss)
        except (psutil.Error, OSError, IndexError):  # gone, or we are out of descriptors: the next call will tell
            return 0

    def kill(self) -> None:
        self.usable = False
        self._process.kill()

    async def end(self) -> None:
        """Kill, wait, and leave nothing behind."""
        self._is_ended = True
        self.kill()
        await self._status()
        async with self._in_use:  # a call in progress hears of the end before its line is closed
            self._channel.close()
        self._said.close()
        await asyncio.to_thread(_remove, self._directory)

    async def _status(self) -> int:
        """Its exit status. A process that only closed its end does not get to linger."""
        pause = 0.001
        while (status := self._process.poll()) is None:
            if pause > 0.25:
                self._lingered = True
                self._process.kill()
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.3)
        return status


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked of a worker, already encoded: arguments that cannot travel are refused before the line."""

    number: int
    body: bytes
    limits: Limits
    descriptors: Sequence[int]

    @classmethod
    def of(cls, function: str, args: tuple[Any, ...], limits: Limits, descriptors: Sequence[int]) -> "Call":
        number = next(_numbers)
        body = msgspec.msgpack.encode((
            number, function, args,
            limits.memory, limits.cpu_seconds, limits.file_bytes, limits.open_files, limits.result_bytes,
        ))  # fmt: skip
        return cls(number, body, limits, descriptors)


def open_to_read(path: Path) -> int:
    """A descriptor of a regular file; a pipe or device could block us or do worse."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise ValueError(f"{path} is not a regular file")


def _spawn(plan: Plan, directory: Path, line: int, said: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-s", "-S", "-B", str(_PROGRAM), str(line)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,  # until it is ready
        cwd=directory,
        env=_environment(plan.paths, directory),
        pass_fds=[line],
        start_new_session=True,  # Ctrl-C is for us; we end the workers
    )


def _environment(paths: Sequence[str], directory: Path) -> dict[str, str]:
    """Built anew: what is in ours may be secret."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(directory),
        "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MiB, which counts against the memory limit
    }


def _nobody() -> tuple[int, int]:
    """Not the account of the embedded servers: a worker must not be able to signal those either."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return entry.pw_uid, entry.pw_gid


def _ended(status: int) -> Outcome[Any]:
    if status >= 0:
        return Outcome(Ending.CRASHED, message=f"left with status {status}", exit_status=status)
    if -status not in set(map(int, signal.Signals)):  # a real-time signal, most of which have no name
        return Outcome(Ending.CRASHED, message=f"ended by signal {-status}")
    number = signal.Signals(-status)
    if number == signal.SIGXCPU:
        return Outcome(Ending.TIMED_OUT, message="used up its CPU time", signal=number)
    if number == signal.SIGSYS:
        return Outcome(Ending.DENIED, message="made a forbidden system call", signal=number)
    hint = "; the system may have run out of memory" if number == signal.SIGKILL else ""
    return Outcome(Ending.CRASHED, message=f"ended by {number.name}{hint}", signal=number)


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
