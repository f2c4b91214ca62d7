"""The program that runs inside: it locks itself in, then answers calls until its parent goes away.

Run as a script, never imported by our own process, so that a worker loads only the standard library, msgspec
and what its pool preloads. The order of `confine` matters: file rules while we may still open every path, the
account next, the death signal after it (a change of account clears it), the system call filter last.
What a call does in here is not trusted, so nothing in here is a defence once a call has taken over the
process: the defences are the kernel's (file rules, filter, hard limits) and the parent's (wall clock, frames).
"""

import ctypes
import errno
import importlib
import math
import os
import resource
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 8, 22, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock, the same on every machine
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILE_RIGHTS = _WRITE_FILE | _READ_FILE | _TRUNCATE
_WORK_RIGHTS = _FILE_RIGHTS | _READ_DIR | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8  # remove and make directories and files
_CAN_KILL_AND_SWITCH = 1 << 5 | 1 << 6 | 1 << 7  # CAP_KILL, CAP_SETGID, CAP_SETUID
_CAP_DAC_READ_SEARCH = 1 << 2
_SIGKILL = 9
_ROOM_TO_ANSWER = 64 * 1024 * 1024  # above a call's memory, so that a full worker can still say so
_MOST_FILES_SENT = 16


class Start(msgspec.Struct):
    """What the parent sends first."""

    parent: int
    preload: list[str]
    readable: list[str]
    filter: bytes | None
    account: tuple[int, int] | None
    memory: int
    file_bytes: int
    open_files: int


class Request(msgspec.Struct, array_like=True):
    """One call."""

    number: int
    function: str
    args: list[Any]
    memory: int
    cpu_seconds: float
    file_bytes: int
    open_files: int
    result_bytes: int


def main(descriptor: int) -> None:
    connection = socket.socket(fileno=descriptor)
    frame, _ = _receive(connection)
    start = msgspec.msgpack.decode(frame, type=Start)
    try:
        held = confine(start)
        for name in start.preload:
            importlib.import_module(name)
        idle = _Idle(start)
    except BaseException as failure:  # noqa: BLE001  the parent gets the reason and raises it
        _send(connection, msgspec.msgpack.encode({"error": f"{type(failure).__name__}: {failure}"}))
        return
    os.dup2(0, 2)  # what was said until here explains a failed start; from here nobody reads it
    _send(connection, msgspec.msgpack.encode(held))
    decoder = msgspec.msgpack.Decoder(Request)
    while True:
        frame, descriptors = _receive(connection)
        request = decoder.decode(frame)
        _send(connection, idle.answer(request, [os.fdopen(each, "rb") for each in descriptors]))


class _Idle:
    """The state to which the worker returns after each call."""

    def __init__(self, start: Start) -> None:
        probe = os.open(os.devnull, os.O_RDONLY)
        os.close(probe)
        self._address_space, self._descriptors = _address_space(), probe + 4  # a late import opens a few
        self._threads = threading.active_count()
        self._writes = start.file_bytes > 0
        self._hard = {
            resource.RLIMIT_AS: self._address_space + start.memory + _ROOM_TO_ANSWER,
            resource.RLIMIT_NOFILE: self._descriptors + start.open_files + _MOST_FILES_SENT,
            resource.RLIMIT_FSIZE: start.file_bytes,
        }
        if sys.platform != "linux":  # no filter: at least no new processes
            self._hard[resource.RLIMIT_NPROC] = 0
        for which, most in self._hard.items():
            _limit(which, most, most)

    def answer(self, request: Request, files: list[BinaryIO]) -> bytes:
        value = msgspec.Raw(b"\xc0")
        ending, error, message = "returned", "", ""
        try:
            function = _find(request.function)
            self._lower(request, len(files))
            encoded = msgspec.msgpack.encode(function(*files, *request.args))
            if len(encoded) > request.result_bytes:
                ending, message = "result_too_large", f"{len(encoded)} bytes, {request.result_bytes} allowed"
            else:
                value = msgspec.Raw(encoded)
        except BaseException as raised:  # noqa: BLE001  whatever a stranger's bytes cause is a result
            self._raise_limits()
            ending, error, message = _explain(raised)
        self._raise_limits()
        for file in files:
            file.close()
        if self._writes:
            _empty(Path.cwd())
        clean = ending in {"returned", "failed", "result_too_large"} and threading.active_count() == self._threads
        return msgspec.msgpack.encode((request.number, ending, error, message, clean, value))

    def _lower(self, request: Request, files: int) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = math.ceil(used.ru_utime + used.ru_stime + request.cpu_seconds)
        self._soften(resource.RLIMIT_AS, self._address_space + request.memory)
        self._soften(resource.RLIMIT_NOFILE, self._descriptors + request.open_files + files)
        self._soften(resource.RLIMIT_FSIZE, request.file_bytes)
        _limit(resource.RLIMIT_CPU, cpu, resource.RLIM_INFINITY)

    def _raise_limits(self) -> None:
        for which, most in self._hard.items():
            _limit(which, most, most)
        _limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def _soften(self, which: int, value: int) -> None:
        _limit(which, min(value, self._hard[which]), self._hard[which])


def _find(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _explain(raised: BaseException) -> tuple[str, str, str]:
    endings = {
        errno.EPERM: "denied",
        errno.EACCES: "denied",
        errno.EFBIG: "file_too_large",
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


def confine(start: Start) -> dict[str, Any]:
    """Give up everything a parser does not need; says what was really had."""
    held = {"error": "", "file_rules": False, "filter": False}
    os.umask(0o077)
    _limit(resource.RLIMIT_CORE, 0, 0)
    if sys.platform != "linux":
        return held
    with suppress(OSError):  # when memory runs out, take us before our parent
        Path("/proc/self/oom_score_adj").write_text("1000")
    libc = ctypes.CDLL(None, use_errno=True)
    _must(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    held["file_rules"] = _restrict_files(libc, start)
    _switch_account(libc, start, file_rules=bool(held["file_rules"]))
    _must(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))
    _must(libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))
    if os.getppid() != start.parent:  # it died before we asked to be told
        os._exit(1)
    if start.filter is not None:
        held["filter"] = _install_filter(libc, start.filter)
    return held


def _restrict_files(libc: Any, start: Start) -> bool:
    """Landlock: read what is listed, write in the own directory if at all. False when the kernel has none."""
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    network, scopes = 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0
    attributes = struct.pack("=QQQ", rights, network, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _must(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    allowed = dict.fromkeys(start.readable, _READ_FILE | _READ_DIR)
    allowed[os.devnull] = _READ_FILE | _WRITE_FILE
    if start.file_bytes:
        allowed[str(Path.cwd())] = _WORK_RIGHTS
    for path, wanted in allowed.items():
        _allow(libc, ruleset, path, wanted & rights)
    _must(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    return True


def _allow(libc: Any, ruleset: int, path: str, wanted: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a path that is not there needs no permission
    granted = wanted if Path(path).is_dir() else wanted & _FILE_RIGHTS
    _must(libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", granted, opened), 0))
    os.close(opened)


def _switch_account(libc: Any, start: Start, *, file_rules: bool) -> None:
    """Become nobody, if we are root and our parent can still kill us then; give up every capability but one.

    An interpreter in root's own home cannot be read by anyone else. Under file rules the worker keeps the
    right to read past permissions, which then reaches no further than the rules.
    """
    kept = 0
    if start.account is not None and _capabilities() & _CAN_KILL_AND_SWITCH == _CAN_KILL_AND_SWITCH:
        uid, gid = start.account
        places = [each for each in sys.path if Path(each).exists()]
        os.chown(".", uid, gid)
        _must(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        unreadable = [each for each in places if not os.access(each, os.R_OK)]
        if unreadable and not file_rules:
            raise PermissionError(f"uid {uid}, as which the worker runs, cannot read {unreadable[0]}")
        kept = _CAP_DAC_READ_SEARCH if unreadable else 0
    header, none = struct.pack("=Ii", 0x20080522, 0), (0, 0, 0)
    _must(libc.capset(header, struct.pack("=6I", kept, kept, 0, *none)))


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _install_filter(libc: Any, program: bytes) -> bool:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    shown = Program(len(program) // 8, program)
    if libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(shown), 0, 0) == 0:
        return True
    if ctypes.get_errno() == errno.EINVAL:  # a kernel without filters
        return False
    raise OSError(ctypes.get_errno(), "the system call filter was refused")


def _must(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel refused to lock the worker in: {os.strerror(number)}")
    return result


def _limit(which: int, soft: int, hard: int) -> None:
    _, most = resource.getrlimit(which)
    if most != resource.RLIM_INFINITY:
        hard = most if hard == resource.RLIM_INFINITY else min(hard, most)
        soft = hard if soft == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(which, (soft, hard))


def _address_space() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux, where this limit is not kept anyway
        return 1 << 40


def _empty(directory: Path) -> None:
    for each in directory.iterdir():
        if each.is_dir() and not each.is_symlink():
            _empty(each)
            each.rmdir()
        else:
            each.unlink()


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
