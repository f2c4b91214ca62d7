"""Locks a forked process of the sandbox in: file rules, account, limits, system call filter.

Imported by the template of a pool (`sandbox/worker.py`), which loads nothing else of ours. The order matters: the file
rules are built while every path may still be opened, the account is given up next, the death signal is asked for after
it (a change of account clears it), the filter is last.
"""

import ctypes
import math
import os
import resource
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_GET_SECCOMP, _PR_SET_SECCOMP = 1, 4, 8, 21, 22
_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # Landlock, the same on every machine
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = 1 << 1 | _READ_FILE | 1 << 14  # write, read, truncate
_CAN_KILL_AND_SWITCH = 1 << 5 | 1 << 6 | 1 << 7  # CAP_KILL, CAP_SETGID, CAP_SETUID
_CAP_DAC_READ_SEARCH = 1 << 2
_MOST_THREADS = 4096  # of all processes of the account: far from all that the machine can have


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


def prepare(start: Start) -> Lock:
    """Give up what no forked process needs, and make what each will be locked in with."""
    lock = Lock(os.getpid(), None, None, start.filter_pid)
    os.umask(0o077)
    os.nice(start.niceness)
    limit(resource.RLIMIT_CORE, 0, 0)
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
    limit(resource.RLIMIT_FSIZE, 0, 0)  # nothing is written to any file
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)  # ends it by SIGPROF, to the millisecond
    seconds = math.ceil(limits.cpu_seconds)
    limit(resource.RLIMIT_CPU, seconds, seconds + 1)  # what does not listen to signals is killed
    if limits.niceness:
        os.nice(limits.niceness)
    if sys.platform != "linux":  # no filter: at least no new processes
        limit(resource.RLIMIT_NPROC, 0, 0)
        return
    limit(resource.RLIMIT_NPROC, _MOST_THREADS, _MOST_THREADS)
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


def try_out(lock: Lock) -> None:
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


def refuse_threads(known: int) -> None:
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


def limit(which: int, soft: int, hard: int) -> None:
    _, most = resource.getrlimit(which)
    if most != resource.RLIM_INFINITY:
        hard = min(hard, most)
        soft = min(soft, hard)
    resource.setrlimit(which, (soft, hard))
