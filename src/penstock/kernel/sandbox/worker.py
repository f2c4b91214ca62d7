"""The program of the sandbox: a template that loads modules once and forks one process for each call.

Run as a script, never imported by our own process, so that it loads only the standard library, msgspec, our
`confinement` and what its pool preloads. The template reads nothing of a stranger's: it takes orders from its parent,
forks, reaps and reports. A forked process gives up everything before it reads its call, makes that one call, answers
and is killed. Nothing in here is a defence once a call has taken over its process: the defences are the kernel's (file
rules, system call filter, hard limits) and the parent's (clock, frames).
"""

import errno
import gc
import importlib
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

from penstock.kernel.confinement import Limits, Lock, Start, confine, limit, prepare, refuse_threads, try_out

_ROOM_TO_ANSWER = 64 * 1024 * 1024  # above a call's memory, so that a full process can still say so
_MOST_FILES_SENT = 16
_LATE_IMPORTS = 4  # files that an import inside a call may hold open for a moment
# Between us and our parent: fixed sizes, so that several in one read are told apart. process.py has the same.
_ORDER = struct.Struct("=cQQdIi")  # action, number of the call, memory, CPU seconds, open files, niceness
_NOTICE = struct.Struct("=Qid")  # number of the call, wait status or minus the errno of fork, CPU seconds
_FORK = b"f"
_LONG_SECONDS, _LONG_NICER = 0.1, 10  # a call that takes so long gets so much less of the processor
_MOST_DESCRIPTORS = 4096  # that a template may have opened


class Request(msgspec.Struct, array_like=True):
    """One call."""

    function: str
    args: list[Any]
    result_bytes: int


def main(descriptor: int) -> None:
    control = socket.socket(fileno=descriptor)
    start = msgspec.msgpack.decode(_receive(control)[0], type=Start)
    try:
        for name in start.preload:
            importlib.import_module(name)
        lock = prepare(start)
        refuse_threads(start.idle_threads)
        try_out(lock)
    except BaseException as failure:  # noqa: BLE001  the parent gets the reason and raises it
        _send(control, msgspec.msgpack.encode({"error": f"{type(failure).__name__}: {failure}"}))
        return
    os.dup2(0, 2)  # what was said until here explains a failed start; from here nobody reads it
    gc.collect()
    gc.freeze()  # what is loaded now is shared with every forked process: do not touch it to collect garbage
    held = {"file_rules": lock.rules is not None, "filter": lock.filter is not None}
    _send(control, msgspec.msgpack.encode(held))
    Template(control, lock).run()


class Template:
    """Obeys its parent: forks, kills, and tells how each process ended."""

    def __init__(self, control: socket.socket, lock: Lock) -> None:
        self._control, self._lock = control, lock
        self._numbers: dict[int, int] = {}  # of a call, by the process that makes it
        self._young: dict[int, float] = {}  # when each process that has not run for long was forked, oldest first
        self._wake, wakes = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def run(self) -> None:
        with selectors.DefaultSelector() as events:
            events.register(self._control, selectors.EVENT_READ, self._obey)
            events.register(self._wake, selectors.EVENT_READ, self._reap)
            while True:
                for key, _ in events.select(self._yield_long_calls()):
                    key.data()

    def _yield_long_calls(self) -> float | None:
        """Let a process that has run for long make way for those that begin; seconds until the next one has."""
        now = time.monotonic()
        while self._young:
            pid, since = next(iter(self._young.items()))
            if now - since < _LONG_SECONDS:
                return since + _LONG_SECONDS - now
            del self._young[pid]
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + _LONG_NICER)
        return None

    def _obey(self) -> None:
        try:
            order, descriptors, _, _ = socket.recv_fds(self._control, _ORDER.size, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not order:
            self._leave()
        while len(order) < _ORDER.size:
            order += self._control.recv(_ORDER.size - len(order))
        action, number, *limits = _ORDER.unpack(order)
        if action == _FORK:
            self._fork(number, Limits(*limits), descriptors[0])
            return
        for pid, each in self._numbers.items():
            if each == number:  # not reaped yet, so its id is still its own
                os.kill(pid, signal.SIGKILL)

    def _fork(self, number: int, limits: Limits, descriptor: int) -> None:
        try:
            pid = os.fork()
        except OSError as failure:
            os.close(descriptor)
            self._control.sendall(_NOTICE.pack(number, -(failure.errno or errno.EAGAIN), 0.0))
            return
        if pid:
            self._numbers[pid] = number
            self._young[pid] = time.monotonic()
            os.close(descriptor)
            return
        try:
            _close_all_but(descriptor, self._lock.rules)
            _one_call(self._lock, limits, descriptor)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        while self._numbers:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            number = self._numbers.pop(pid)
            self._young.pop(pid, None)
            self._control.sendall(_NOTICE.pack(number, status, used.ru_utime + used.ru_stime))

    def _leave(self) -> NoReturn:
        """Our parent closed the line: nothing that we started stays."""
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in self._numbers:
            os.waitpid(pid, 0)
        os._exit(0)


def _close_all_but(line: int, rules: int | None) -> None:
    """A forked process has nothing of the template's: neither its line to the parent nor what it waits with."""
    first = 3
    for kept in sorted(each for each in (line, rules) if each is not None):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, _MOST_DESCRIPTORS)


def _one_call(lock: Lock, limits: Limits, descriptor: int) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection = socket.socket(fileno=descriptor)
    room = _address_space()
    confine(lock, limits)
    frame, descriptors = _receive(connection)
    request = msgspec.msgpack.decode(frame, type=Request)
    files = [os.fdopen(each, "rb") for each in descriptors]
    limit(resource.RLIMIT_AS, room + limits.memory, room + limits.memory + _ROOM_TO_ANSWER)
    most = max([descriptor, *descriptors]) + 1 + _LATE_IMPORTS + limits.open_files
    limit(resource.RLIMIT_NOFILE, most, most)
    _send(connection, _answer(request, files))
    os._exit(0)


def _answer(request: Request, files: Sequence[BinaryIO]) -> bytes:
    value = msgspec.Raw(b"\xc0")
    ending, error, message = "returned", "", ""
    try:
        encoded = msgspec.msgpack.encode(_find(request.function)(*files, *request.args))
        if len(encoded) > request.result_bytes:
            ending, message = "result_too_large", f"{len(encoded)} bytes, {request.result_bytes} allowed"
        else:
            value = msgspec.Raw(encoded)
    except BaseException as raised:  # noqa: BLE001  whatever a stranger's bytes cause is a result
        _use_room_to_answer()
        ending, error, message = _explain(raised)
    _use_room_to_answer()
    return msgspec.msgpack.encode((ending, error, message, value))


def _find(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _explain(raised: BaseException) -> tuple[str, str, str]:
    endings = {
        errno.EPERM: "denied",
        errno.EACCES: "denied",
        errno.EFBIG: "denied",
        errno.EMFILE: "too_many_files",
        errno.ENOMEM: "out_of_memory",
    }
    ending = "failed"
    if isinstance(raised, MemoryError):
        ending = "out_of_memory"
    elif isinstance(raised, OSError):
        ending = endings.get(raised.errno or 0, "failed")
    try:
        message = str(raised)[:500].encode(errors="replace").decode()
    except BaseException:  # noqa: BLE001  an exception whose text cannot be had is still an exception
        message = "(no message)"
    return ending, type(raised).__name__, message


def _use_room_to_answer() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _address_space() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux, where this limit is not kept anyway
        return 1 << 40


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    data, descriptors, _, _ = socket.recv_fds(connection, 65536, _MOST_FILES_SENT)
    frame = bytearray(data)
    while len(frame) < 4 or len(frame) < 4 + int.from_bytes(frame[:4], "big"):
        more = connection.recv(1 << 20)
        if not more:  # our parent closed the line
            os._exit(0)
        frame += more
    return bytes(frame[4:]), list(descriptors)


def _send(connection: socket.socket, body: bytes) -> None:
    header = len(body).to_bytes(4, "big")
    if len(body) < 1 << 16:
        connection.sendall(header + body)
    else:  # one more call is cheaper than one more copy
        connection.sendall(header)
        connection.sendall(body)


if __name__ == "__main__":
    main(int(sys.argv[1]))
