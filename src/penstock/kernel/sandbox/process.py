"""The template process as its parent sees it: start it, have it fork a process for a call, end it.

The parent trusts nothing that a forked process says: answers are length-limited msgpack of a known shape, and the wall
clock is kept here. How a process ended and how much CPU time it took is told by the template, which asks the kernel.
"""

import asyncio
import itertools
import os
import pwd
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox.channel import Channel, ChannelClosed, FrameTooLarge
from penstock.kernel.sandbox.outcome import Ending, Limits, Outcome
from penstock.kernel.sandbox.seccomp import filter_for
from penstock.kernel.sandbox.settings import SandboxSettings

Value = TypeVar("Value")

_PROGRAM = Path(__file__).with_name("worker.py")
MOST_FILES = 16  # with one call; worker.py keeps room for so many
_ANSWER_ROOM = 4096  # an answer is the result and a few short fields
_NICENESS = 5  # whoever reads strangers' files makes way for those who answer requests
_ANY_PID = 0x50454E53  # stands in the filter for the id of a process that is not forked yet
_LINGERING = 0.25  # seconds that a process may take to go after it closed its line
_TELLING = 5.0  # seconds for the template to tell that a killed process is gone
_LEAVING = 2.0  # seconds for the template to go, with all it forked
# Between us and the template, as in worker.py: fixed sizes.
_ORDER = struct.Struct("=cQQdIi")
_NOTICE = struct.Struct("=Qid")
# What native libraries look for. Named one by one: a settings file with secrets may lie beside any of them.
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share",
    "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/dev/urandom", "/dev/zero", "/dev/null",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip


class Strength(StrEnum):
    """What the operating system enforces around a process."""

    FULL = "full"  # limits, system call filter, file rules
    NO_FILE_RULES = "no_file_rules"  # Linux without Landlock: it can read what its account can read
    LIMITS_ONLY = "limits_only"  # not Linux, or no filter for this machine: limits and the clock only

    @property
    def consequence(self) -> str:
        """What a file that takes over its process could do here."""
        return {
            Strength.FULL: "",
            Strength.NO_FILE_RULES: "a file that takes over its reader could read what our account can read",
            Strength.LIMITS_ONLY: "a file that takes over its reader could read files and use the network",
        }[self]

    def meets(self, required: str) -> bool:
        order = [Strength.LIMITS_ONLY, Strength.NO_FILE_RULES, Strength.FULL]
        return order.index(self) >= ["any", "filter", "full"].index(required)


class _Ready(msgspec.Struct):
    error: str = ""
    file_rules: bool = False
    filter: bool = False


class _Answer(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    ending: Ending
    error: str
    message: str
    value: msgspec.Raw


# Endings that a process may tell of itself; the others are ours to see.
_TOLD = frozenset({
    Ending.RETURNED, Ending.FAILED, Ending.DENIED, Ending.OUT_OF_MEMORY, Ending.TOO_MANY_FILES, Ending.RESULT_TOO_LARGE,
})  # fmt: skip
_answers = msgspec.msgpack.Decoder(_Answer)
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the template of a pool is started with."""

    settings: SandboxSettings
    preload: tuple[str, ...]
    paths: tuple[str, ...]  # where modules are found; readable inside
    idle_threads: int = 0  # that the modules start and that hold no lock while they wait


@dataclass(frozen=True, slots=True)
class Call:
    """One call, already encoded: arguments that cannot travel are refused before a place is taken."""

    function: str
    body: bytes
    limits: Limits
    descriptors: Sequence[int] = ()
    niceness: int = 0

    @classmethod
    def of(cls, function: str, args: tuple[Any, ...], limits: Limits) -> "Call":
        return cls(function, msgspec.msgpack.encode((function, args, limits.result_bytes)), limits)


@dataclass(frozen=True, slots=True)
class _End:
    """How a process ended; `status` as of `os.wait`, None when the template went first and nobody knows."""

    status: int | None
    cpu_seconds: float = 0.0


class Template:
    """The warm process that forks the others."""

    def __init__(self, plan: Plan) -> None:
        """Starts the process, or raises SANDBOX_UNAVAILABLE. From here on `close` must be called."""
        with ExitStack() as undo:
            try:
                self._said = undo.enter_context(tempfile.TemporaryFile())
                own, others = socket.socketpair()
                undo.callback(own.close)
                with others:
                    self._process = _spawn(plan, others.fileno(), self._said)
            except OSError as failure:  # out of processes, descriptors, disk
                raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=str(failure)) from failure
            undo.pop_all()
        own.setblocking(False)
        self._plan, self._control = plan, own
        self._ends: dict[int, asyncio.Future[_End]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._is_closed = False
        self.strength = Strength.LIMITS_ONLY

    @property
    def is_alive(self) -> bool:
        return self._listening is not None and not self._listening.done() and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self) -> None:
        """Waits until the modules are loaded; raises SANDBOX_UNAVAILABLE with the reason when they cannot be."""
        try:
            async with asyncio.timeout(self._plan.settings.start_seconds):
                ready = await self._greet()
        except (TimeoutError, ChannelClosed, FrameTooLarge, msgspec.DecodeError) as failure:
            self._said.seek(0)
            reason = self._said.read()[-500:].decode(errors="replace") or f"it did not answer ({failure!r})"
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=reason) from failure
        if ready.error:
            self._said.seek(0)
            said = self._said.read()[-300:].decode(errors="replace").strip()
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=f"{ready.error} {said}".strip())
        if ready.filter:
            self.strength = Strength.FULL if ready.file_rules else Strength.NO_FILE_RULES
        required = self._plan.settings.require
        if not self.strength.meets(required):
            reason = f"PENSTOCK_SANDBOX_REQUIRE is {required} and this machine gives {self.strength}"
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=reason)
        self._said.close()
        self._listening = asyncio.get_running_loop().create_task(self._listen(), name="sandbox template")

    async def _greet(self) -> _Ready:
        start = {
            "parent": os.getpid(),
            "preload": self._plan.preload,
            "readable": (*self._plan.paths, sys.base_prefix, sys.prefix, *_SYSTEM),
            "filter": filter_for(_ANY_PID),
            "filter_pid": _ANY_PID,
            "account": _nobody() if os.geteuid() == 0 else None,
            "niceness": _NICENESS,
            "idle_threads": self._plan.idle_threads,
        }
        channel = Channel(self._control)
        await channel.send(msgspec.msgpack.encode(start))
        return msgspec.msgpack.decode(await channel.receive(_ANSWER_ROOM), type=_Ready)

    async def run(self, call: Call, returns: type[Value]) -> Outcome[Value]:
        """Has a process forked for the call and waits until it is gone.

        Any ending is an outcome, but our own: SANDBOX_UNAVAILABLE if `close` came meanwhile or no process could be
        had, or cancellation, which kills the process.
        """
        number, loop = next(_numbers), asyncio.get_running_loop()
        ended = self._ends[number] = loop.create_future()
        try:
            own, others = socket.socketpair()
        except OSError as failure:
            del self._ends[number]
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=str(failure)) from failure
        channel = Channel(own)
        with others:
            if not self._order(b"f", number, call, others.fileno()):
                self._process.kill()  # it cannot be reached: the next call starts another
        try:
            said = await self._ask(channel, call, ended)
        finally:
            self._order(b"k", number, call)
            end = await self._gone_by(ended)
            channel.close()
        if self._is_closed and not isinstance(said, memoryview):
            raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason="the sandbox was closed")
        return _outcome(said, end, call, returns)

    async def _ask(self, channel: Channel, call: Call, ended: asyncio.Future[_End]) -> memoryview | Ending | None:
        """The answer; or how the asking ended; or None when the process went without a word."""
        try:
            async with asyncio.timeout(call.limits.wall_seconds):
                await channel.send(call.body, call.descriptors)
                return await channel.receive(call.limits.result_bytes + _ANSWER_ROOM)
        except TimeoutError:
            return Ending.STALLED
        except FrameTooLarge:
            return Ending.RESULT_TOO_LARGE
        except ChannelClosed:
            await asyncio.wait({ended}, timeout=_LINGERING)
            return None if ended.done() else Ending.GARBLED

    async def _gone_by(self, ended: asyncio.Future[_End]) -> _End:
        """How the process ended. A template that does not tell in time is killed, and all it forked with it."""
        await asyncio.wait({ended}, timeout=_TELLING)
        if not ended.done():
            self._process.kill()
        return await ended

    def _order(self, action: bytes, number: int, call: Call, descriptor: int | None = None) -> bool:
        """Sends one order. It is short, and the template always reads: it fits, or the template is gone (False)."""
        limits = call.limits
        order = _ORDER.pack(action, number, limits.memory, limits.cpu_seconds, limits.open_files, call.niceness)
        try:
            return socket.send_fds(self._control, [order], [] if descriptor is None else [descriptor]) == len(order)
        except OSError:
            return False

    async def _listen(self) -> None:
        """Hands out what the template says of ended processes, until it is gone itself."""
        loop, held = asyncio.get_running_loop(), b""
        try:
            while data := await loop.sock_recv(self._control, 4096):
                held += data
                while len(held) >= _NOTICE.size:
                    number, status, seconds = _NOTICE.unpack_from(held)
                    held = held[_NOTICE.size :]
                    self._settle(number, _End(status, seconds))
        except OSError:
            pass
        finally:
            for number in tuple(self._ends):
                self._settle(number, _End(None))

    def _settle(self, number: int, end: _End) -> None:
        ended = self._ends.pop(number, None)
        if ended is not None and not ended.done():
            ended.set_result(end)

    async def close(self) -> None:
        """Ends the template and every process it forked, and leaves nothing behind."""
        self._is_closed = True
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # it kills and reaps what it forked, and goes
        try:
            async with asyncio.timeout(_LEAVING):
                await _gone(self._process)
        except TimeoutError:
            self._process.kill()  # the kernel ends the others with it
            await _gone(self._process)
        if self._listening is not None:
            await self._listening
        self._control.close()
        self._said.close()


async def _gone(process: subprocess.Popen[bytes]) -> None:
    pause = 0.001
    while process.poll() is None:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def _outcome(said: memoryview | Ending | None, end: _End, call: Call, returns: type[Value]) -> Outcome[Value]:
    limits, seconds = call.limits, end.cpu_seconds
    if isinstance(said, memoryview):
        return _read(said, seconds, returns)
    if end.status is not None and end.status < 0:  # it was never forked
        raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=os.strerror(-end.status))
    if said is Ending.RESULT_TOO_LARGE:
        return Outcome(said, message=f"more than the {limits.result_bytes} bytes allowed", seconds=seconds)
    if said is Ending.GARBLED:
        return Outcome(said, message="closed its line", seconds=seconds)
    code = -signal.SIGKILL if end.status is None else os.waitstatus_to_exitcode(end.status)
    if code in (-signal.SIGPROF, -signal.SIGXCPU) or seconds >= limits.cpu_seconds:
        return Outcome(Ending.TIMED_OUT, message=f"used up its {limits.cpu_seconds:g} s of CPU time", seconds=seconds)
    if said is Ending.STALLED:
        message = f"killed after {limits.wall_seconds:g} s, of which it ran for {seconds:.1f} s"
        return Outcome(said, message=message, seconds=seconds)
    return _ended(code, seconds)


def _read(body: memoryview, seconds: float, returns: type[Value]) -> Outcome[Value]:
    try:
        answer = _answers.decode(body)
        value = msgspec.msgpack.decode(answer.value, type=returns) if answer.ending is Ending.RETURNED else None
    except (msgspec.DecodeError, RecursionError, ValueError) as wrong:
        return Outcome(Ending.GARBLED, message=str(wrong), seconds=seconds)
    if answer.ending not in _TOLD:
        return Outcome(Ending.GARBLED, message=f"says of itself {answer.ending}", seconds=seconds)
    return Outcome(answer.ending, value, answer.error, answer.message, seconds=seconds)


def _ended(code: int, seconds: float) -> Outcome[Any]:
    if code >= 0:
        return Outcome(Ending.CRASHED, message=f"left with status {code}", exit_status=code, seconds=seconds)
    if -code not in set(map(int, signal.Signals)):  # a real-time signal, most of which have no name
        return Outcome(Ending.CRASHED, message=f"ended by signal {-code}", seconds=seconds)
    number = signal.Signals(-code)
    if number == signal.SIGSYS:
        return Outcome(Ending.DENIED, message="made a forbidden system call", signal=number, seconds=seconds)
    hint = "; the system may have run out of memory" if number == signal.SIGKILL else ""
    return Outcome(Ending.CRASHED, message=f"ended by {number.name}{hint}", signal=number, seconds=seconds)


def open_to_read(path: Path) -> int:
    """A descriptor of a regular file; a pipe or device could block us or do worse."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise ValueError(f"{path} is not a regular file")


def _spawn(plan: Plan, line: int, said: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-s", "-S", "-B", str(_PROGRAM), str(line)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,  # until it is ready
        cwd="/",
        env=_environment(plan.paths),
        pass_fds=[line],
        process_group=0,  # Ctrl-C is for us; the same session, within which niceness counts
    )


def _environment(paths: Sequence[str]) -> dict[str, str]:
    """Built anew: what is in ours may be secret."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MiB, which counts against the memory limit
        # Numeric libraries read this when they are loaded: a template with threads cannot be forked safely.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _nobody() -> tuple[int, int]:
    """Not the account of the embedded servers: a process must not be able to signal those either."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return entry.pw_uid, entry.pw_gid
