"""What strangers' bytes might make a parser do. Run only inside the sandbox; imported by nothing else."""

import ctypes
import fcntl
import os
import re
import resource
import signal
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

_remembered: list[str] = []


def add(one: int, other: int) -> int:
    return one + other


def echo(value: object) -> object:
    return value


def read(file: BinaryIO) -> bytes:
    return file.read()


def count(*files: BinaryIO) -> int:
    return len([file.read(1) for file in files])


def read_and_wait(file: BinaryIO, gate: BinaryIO) -> bytes:
    data = file.read()
    while not os.pread(gate.fileno(), 1, 0):
        time.sleep(0.01)
    return data


def write_through(file: BinaryIO) -> None:
    os.write(file.fileno(), b"x")


def reopen_to_write(file: BinaryIO) -> None:
    Path(f"/proc/self/fd/{file.fileno()}").write_bytes(b"x")


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def own_pid() -> int:
    return os.getpid()


def own_uid() -> int:
    return os.getuid()


def environment() -> dict[str, str]:
    return dict(os.environ)


def read_path(path: str) -> bytes:
    return Path(path).read_bytes()


def list_directory(path: str) -> list[str]:
    return [each.name for each in Path(path).iterdir()]


def allocate(size: int) -> int:
    return len(bytearray(size))


def map_memory_in_c(size: int) -> int:
    return ctypes.CDLL(None).memset(ctypes.create_string_buffer(size), 1, size)


def loop_in_python() -> None:
    while True:
        pass


def loop_in_c() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def loop_deaf_to_signals() -> None:
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def segfault() -> None:
    ctypes.string_at(0)


def abort() -> None:
    os.abort()


def leave(status: int) -> None:
    os._exit(status)


def raise_system_exit() -> None:
    sys.exit(3)


def fork() -> int:
    return os.fork()


def execute() -> None:
    os.execv("/bin/true", ["true"])


def spawn() -> int:
    return os.posix_spawn("/bin/true", ["true"], {})


def open_socket(family: int) -> None:
    socket.socket(socket.AddressFamily(family)).close()


def open_socket_pair() -> None:
    socket.socketpair()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def be_signalled(pid: int) -> None:
    """Have the kernel signal somebody else when our line is written to."""
    fcntl.fcntl(_line(), fcntl.F_SETOWN, pid)


def be_signalled_by_ioctl(pid: int) -> None:
    fcntl.ioctl(_line(), 0x8901, struct.pack("i", pid))


def change_mode(path: str) -> None:
    Path(path).chmod(0o666)


def change_owner(path: str) -> None:
    os.chown(path, os.getuid(), -1)


def change_time(path: str) -> None:
    os.utime(path, (0, 0))


def change_length(path: str) -> None:
    os.truncate(path, 0)


def change_attribute(path: str) -> None:
    os.setxattr(path, "user.note", b"x")


def die_of(number: int) -> None:
    os.kill(os.getpid(), number)


def starve(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))


def control_process(option: int, value: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return 0 if libc.prctl(option, value, 0, 0, 0) == 0 else ctypes.get_errno()


def watch_files() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return 0 if libc.inotify_init1(0) >= 0 else ctypes.get_errno()


def system_call(number: int) -> int:
    """The error number of a raw system call with empty arguments."""
    libc = ctypes.CDLL(None, use_errno=True)
    return 0 if libc.syscall(number, 0, 0, 0, 0, 0, 0) >= 0 else ctypes.get_errno()


def write_file(size: int) -> int:
    written = 0
    with tempfile.NamedTemporaryFile() as file:
        while written < size:
            written += file.write(b"x" * min(1 << 20, size - written))
            file.flush()
    return written


def write_to(path: str) -> None:
    Path(path).write_text("x")


def open_files(count: int) -> int:
    return len([Path("/dev/null").open() for _ in range(count)])


def recurse(depth: int) -> int:
    return 0 if depth == 0 else 1 + recurse(depth - 1)


def overflow_the_stack() -> int:
    sys.setrecursionlimit(1 << 30)
    value: list[object] = []
    for _ in range(500_000):
        value = [value]
    return len(repr(value))


def result_of(size: int) -> bytes:
    return b"x" * size


def nested_result(depth: int) -> object:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def unencodable() -> object:
    return threading.Lock()


def raise_value_error() -> None:
    raise ValueError("the cross-reference table is upside down")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def raise_without_words() -> None:
    raise Mute


def talk() -> str:
    print("%PDF-" * 10_000)  # noqa: T201
    sys.stderr.write("warning: " * 10_000)
    sys.stdin.read()
    os.write(1, b"raw" * 100_000)
    return "said"


def _line() -> int:
    """The descriptor of the line to our caller: the only socket there is."""
    return next(each for each in range(3, 64) if _is_socket(each))


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def babble() -> None:
    os.write(_line(), b"\x00\x00\x00\x05hello")


def announce_a_gigabyte() -> None:
    os.write(_line(), (1 << 30).to_bytes(4, "big"))
    time.sleep(30)


def answer_twice() -> int:
    os.write(_line(), b"\x00\x00\x00\x01\x00")
    return 1


def hang_up() -> None:
    os.close(_line())
    time.sleep(30)


def hang_up_and_leave() -> None:
    os.close(_line())
    os._exit(7)


def remember(name: str) -> list[str]:
    _remembered.append(name)
    return _remembered


def count_descriptors(_: BinaryIO) -> list[int]:
    return descriptors()


def descriptors() -> list[int]:
    return [each for each in range(4096) if _is_open(each)]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def call_itself_stalled() -> None:
    body = msgspec.msgpack.encode(("stalled", "", "", None))
    os.write(_line(), len(body).to_bytes(4, "big") + body)
    time.sleep(30)


def niceness(after: float = 0) -> int:
    time.sleep(after)
    return os.getpriority(os.PRIO_PROCESS, 0)


def run_threads(count: int) -> int:
    done: list[int] = []
    threads = [threading.Thread(target=done.append, args=(each,)) for each in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done)


def leave_a_thread() -> int:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return os.getpid()


def thread_bomb() -> None:
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
