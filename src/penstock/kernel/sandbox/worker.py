"""The program of the sandbox: a template that loads modules once and forks one process for each call.

Run as a script, never imported by our own process, so that it loads only the standard library, msgspec and what its
pool preloads. The template reads nothing of a stranger's: it takes orders from its parent, forks, reaps and reports.
A forked process gives up everything before it reads its call, makes that one call, answers and is killed. Nothing in
here is a defence once a call has taken over its process: the defences are the kernel's (file rules, system call
filter, hard limits) and the parent's (clock, frames).

The order of `prepare` and `confine` matters: the file rules are built while every path may still be opened, the
account is given up next, the death signal is asked for after it (a change of account clears it), the filter is last.
"""

import ctypes
import errno
import gc
import importlib
import math
import os
import resource
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_GET_SECCOMP, _PR_SET_SECCOMP = 1, 4, 8, 21, 22
_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock, the same on every machine
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = 1 << 1 | _READ_FILE | 1 << 14  # write, read, truncate
_CAN_KILL_AND_SWITCH = 1 << 5 | 1 << 6 | 1 << 7  # CAP_KILL, CAP_SETGID, CAP_SETUID
_CAP_DAC_READ_SEARCH = 1 << 2
_ROOM_TO_ANSWER = 64 * 1024 * 1024  # above a call's memory, so that a full process can still say so
_MOST_FILES_SENT = 16
_LATE_IMPORTS = 4  # files that an import inside a call may hold open for a moment
# Between us and our parent: fixed sizes, so that several in one read are told apart. process.py has the same.
_ORDER = struct.Struct("=cQQdIi")  # action, number of the call, memory, CPU seconds, open files, niceness
_NOTICE = struct.Struct("=Qid")  # number of the call, wait status or minus the errno of fork, CPU seconds
_FORK = b"f"


class Start(msgspec.Struct):
    """What the parent sends first."""

    parent: int
    preload: list[str]
    readable: list[str]
    filter: bytes | None
    filter_pid: int  # stands in the filter where a process's own id belongs
    account: tuple[int, int] | None
    niceness: int
    idle_threads: int


class Request(msgspec.Struct, array_like=True):
    """One call."""

    function: str
    args: list[Any]
    result_bytes: int


class Limits(msgspec.Struct):
    """What one call may use."""

    memory: int
    cpu_seconds: float
    open_files: int
    niceness: int


class Lock(msgspec.Struct):
    """What holds a forked process in, made once by the template."""

    template: int
    rules: int | None  # descriptor of the file rules; None: the kernel has none
    filter: bytes | None  # system call filter; None: the kernel has none, or we have none for this machine
    filter_pid: int


def main(descriptor: int) -> None:
    control = socket.socket(fileno=descriptor)
    start = msgspec.msgpack.decode(_receive(control)[0], type=Start)
    try:
        for name in start.preload:
            importlib.import_module(name)
        lock = prepare(start)
        _refuse_threads(start.idle_threads)
        _try_out(lock)
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
        self._wake, wakes = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._inherited = (control.fileno(), self._wake, wakes)

    def run(self) -> None:
        with selectors.DefaultSelector() as events:
            events.register(self._control, selectors.EVENT_READ, self._obey)
            events.register(self._wake, selectors.EVENT_READ, self._reap)
            while True:
                for key, _ in events.select():
                    key.data()

    def _obey(self) -> None:
        order, descriptors, _, _ = socket.recv_fds(self._control, _ORDER.size, 1)
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
            os.close(descriptor)
            return
        try:
            for each in self._inherited:
                os.close(each)
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
            self._control.sendall(_NOTICE.pack(number, status, used.ru_utime + used.ru_stime))

    def _leave(self) -> NoReturn:
        """Our parent closed the line: nothing that we started stays."""
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in self._numbers:
            os.waitpid(pid, 0)
        os._exit(0)


def _one_call(lock: Lock, limits: Limits, descriptor: int) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection = socket.socket(fileno=descriptor)
    room = _address_space()
    confine(lock, limits)
    frame, descriptors = _receive(connection)
    request = msgspec.msgpack.decode(frame, type=Request)
    files = [os.fdopen(each, "rb") for each in descriptors]
    _limit(resource.RLIMIT_AS, room + limits.memory, room + limits.memory + _ROOM_TO_ANSWER)
    most = max([descriptor, *descriptors]) + 1 + _LATE_IMPORTS + limits.open_files
    _limit(resource.RLIMIT_NOFILE, most, most)
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


def prepare(start: Start) -> Lock:
    """Give up what no forked process needs, and make what each will be locked in with."""
    lock = Lock(os.getpid(), None, None, start.filter_pid)
    os.umask(0o077)
    os.nice(start.niceness)
    _limit(resource.RLIMIT_CORE, 0, 0)
    if sys.platform != "linux":
        return lock
    with suppress(OSError):  # when memory runs out, take us before our parent
        Path("/proc/self/oom_score_adj").write_text("1000")
    libc = ctypes.CDLL(None, use_errno=True)
    _must(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    lock.rules = _file_rules(libc, start)
    lock.filter = start.filter if libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) >= 0 else None
    _switch_account(libc, start, file_rules=lock.rules is not None)
    _must(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))
    _die_with(libc, start.parent)
    return lock


def confine(lock: Lock, limits: Limits) -> None:
    """Lock a forked process in, for one call with these limits."""
    _limit(resource.RLIMIT_FSIZE, 0, 0)  # nothing is written to any file
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)  # ends it by SIGPROF, to the millisecond
    seconds = math.ceil(limits.cpu_seconds)
    _limit(resource.RLIMIT_CPU, seconds, seconds + 1)  # what does not listen to signals is killed
    if limits.niceness:
        os.nice(limits.niceness)
    if sys.platform != "linux":  # no filter: at least no new processes
        _limit(resource.RLIMIT_NPROC, 0, 0)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _die_with(libc, lock.template)
    if lock.rules is not None:
        _must(libc.syscall(_RESTRICT_SELF, lock.rules, 0))
        os.close(lock.rules)
    if lock.filter is not None:
        own = lock.filter.replace(struct.pack("=I", lock.filter_pid), struct.pack("=I", os.getpid()))
        _install_filter(libc, own)


def _die_with(libc: Any, parent: int) -> None:
    _must(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:  # it died before we asked to be told
        os._exit(1)


def _try_out(lock: Lock) -> None:
    """Lock one process in for nothing: a kernel or container that refuses is told at the start, with the reason."""
    pid = os.fork()
    if pid == 0:
        try:
            confine(lock, Limits(memory=1, cpu_seconds=1, open_files=1, niceness=0))
            os._exit(0)
        except BaseException as refused:  # noqa: BLE001  told on standard error, which our parent reads
            sys.stderr.write(f"{refused}\n")
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise OSError("a process could not be locked in")


def _refuse_threads(known: int) -> None:
    """A process forked while another thread holds a lock inherits it locked for ever: only known threads may be."""
    if sys.platform != "linux":
        return
    threads = len(os.listdir("/proc/self/task")) - 1  # noqa: PTH208  quicker
    if threads > known:
        raise RuntimeError(f"the modules that are loaded in advance have started {threads} threads")


def _file_rules(libc: Any, start: Start) -> int | None:
    """Landlock: read what is listed, write nothing. None when the kernel has none."""
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return None
    rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    network, scopes = 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0
    attributes = struct.pack("=QQQ", rights, network, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _must(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for path in start.readable:
        _allow(libc, ruleset, path, (_READ_FILE | _READ_DIR) & rights)
    return ruleset


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

    An interpreter in root's own home cannot be read by anyone else. Under file rules a process keeps the
    right to read past permissions, which then reaches no further than the rules.
    """
    kept = 0
    if start.account is not None and _capabilities() & _CAN_KILL_AND_SWITCH == _CAN_KILL_AND_SWITCH:
        uid, gid = start.account
        places = [each for each in sys.path if Path(each).exists()]
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


def _install_filter(libc: Any, program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    _must(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(Program(len(program) // 8, program)), 0, 0))


def _must(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel refused to lock the worker in: {os.strerror(number)}")
    return result


def _limit(which: int, soft: int, hard: int) -> None:
    _, most = resource.getrlimit(which)
    if most != resource.RLIM_INFINITY:
        hard = min(hard, most)
        soft = min(soft, hard)
    resource.setrlimit(which, (soft, hard))


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
