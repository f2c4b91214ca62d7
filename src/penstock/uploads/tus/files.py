"""The data files of uploads, on disk: one file per upload, no side files.

Everything here blocks and belongs in a thread, except `try_lock` and `unlock`, which never wait. The lock is the
operating system's: it dies with its process, so a killed server never leaves an upload locked.
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, cast

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SYNC_FILE_RANGE_WRITE = 2
_WORTH_STARTING = 256 * 1024
_MOST_BUFFERS = 512  # what one pwritev takes everywhere
_COPIED_AT_ONCE = 64 << 20
_MODE = 0o600  # no other account of the machine reads what merchants send


def _find_start_writing() -> Callable[[int, int, int, int], int] | None:
    """Linux can begin to write out a range without waiting, so that the sync at the end finds little left to do."""
    try:
        found = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return cast("Callable[[int, int, int, int], int]", found)


_start_writing = _find_start_writing()


@contextmanager
def disk_faults() -> Iterator[None]:
    """A full disk is for people to act on; any other fault of the disk is unavailability."""
    try:
        yield
    except OSError as fault:
        code = error_codes.DISK_FULL if fault.errno in _FULL else error_codes.STORE_UNAVAILABLE
        raise PenstockError(code, reason=os.strerror(fault.errno or 0)) from fault


class DataFile:
    """One open data file. Between `try_lock` and `unlock` nobody else writes to it, in any process."""

    def __init__(self, path: Path, descriptor: int, *, new: bool) -> None:
        self.path = path
        self.new = new  # its name may not be on disk yet
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> Self:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        with disk_faults():
            try:
                return cls(path, os.open(path, flags), new=False)
            except FileNotFoundError:
                return cls(path, os.open(path, flags | os.O_CREAT, _MODE), new=True)

    def try_lock(self) -> bool:
        """True when the lock is ours and the file is still the one at its path."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if self.is_current:
            return True
        self.unlock()
        return False

    def unlock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @property
    def is_current(self) -> bool:
        """False once another file has taken its place, or it was removed: whatever is written to it is lost."""
        with disk_faults():
            try:
                there = self.path.stat()
            except FileNotFoundError:
                return False
            return there.st_ino == os.fstat(self._descriptor).st_ino

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def cut(self, size: int) -> None:
        with disk_faults():
            os.ftruncate(self._descriptor, size)

    def write(self, buffers: Sequence[bytes], position: int, keep_free: int = 0) -> None:
        """All of it, at this position, or an error: DISK_FULL also if less than `keep_free` bytes would be left."""
        with disk_faults():
            _check_room(self._descriptor, sum(map(len, buffers)) + keep_free)
            begin = position
            for start in range(0, len(buffers), _MOST_BUFFERS):
                position = self._write_some(buffers[start : start + _MOST_BUFFERS], position)
            if _start_writing is not None and position - begin >= _WORTH_STARTING:
                _start_writing(self._descriptor, begin, position - begin, _SYNC_FILE_RANGE_WRITE)

    def _write_some(self, buffers: Sequence[bytes], position: int) -> int:
        total = sum(map(len, buffers))
        written = os.pwritev(self._descriptor, buffers, position)
        if written < total:  # rare: a signal, or a disk that is getting full
            rest = memoryview(b"".join(buffers))
            while written < total:
                written += os.pwrite(self._descriptor, rest[written:], position + written)
        return position + total

    def sync(self) -> None:
        """The bytes, and for a new file its name too, survive a power cut once this returned."""
        with disk_faults():
            os.fdatasync(self._descriptor)
            if self.new:
                sync_directory(self.path.parent)
                self.new = False

    def copy_of(self, path: Path, size: int) -> None:
        """Copy the first so many bytes of the file at `path`; nothing else may be in here afterwards."""
        with disk_faults(), path.open("rb", buffering=0) as old:
            os.ftruncate(self._descriptor, 0)  # of a copy that was never finished
            _copy(old.fileno(), self._descriptor, size)
            os.fsync(self._descriptor)

    def take_place(self, path: Path) -> None:
        """Become the file at `path`; a lock on this one goes on."""
        with disk_faults():
            self.path.replace(path)
            self.path = path
            sync_directory(path.parent)

    def close(self) -> None:
        """Again: nothing happens."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def make_directory(directory: Path, is_ours: bool) -> None:
    """For data files; closed to other accounts if it is new, or in any case if it is ours. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_ours:
        with suppress(PermissionError):  # it belongs to another account, who has to see to it
            directory.chmod(0o700)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def beside(path: Path) -> Path:
    """Where a data file is written that will take the place of `path`."""
    return path.with_name(f"{path.name}.new")


def join(parts: Sequence[tuple[Path, int]], target: Path, keep_free: int) -> None:
    """Write the first so many bytes of each part, one after the other, into a new file that replaces `target`."""
    new = beside(target)
    with disk_faults():
        made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
        try:
            for path, size in parts:
                with path.open("rb", buffering=0) as part:
                    _copy(part.fileno(), made, size, keep_free)
            os.fsync(made)
            new.replace(target)
            sync_directory(target.parent)
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise
        finally:
            os.close(made)


def _copy(source: int, target: int, size: int, keep_free: int = 0) -> None:
    position = 0
    while position < size:
        piece = min(size - position, _COPIED_AT_ONCE)
        _check_room(target, piece + keep_free)
        copied = os.sendfile(target, source, position, piece)
        if copied == 0:
            raise OSError(errno.EIO, "a data file is shorter than its offset")
        position += copied


def _check_room(descriptor: int, needed: int) -> None:
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def place(file: Path, target: Path) -> int:
    """A synced file, in the same directory, becomes the data file of an upload; returns its size."""
    with disk_faults():
        size = file.stat().st_size
        file.replace(target)
        sync_directory(target.parent)
        return size


def remove(path: Path) -> None:
    with disk_faults(), suppress(FileNotFoundError):
        path.unlink()


def empty(path: Path) -> None:
    """Give back the blocks of a file that is about to be removed, also while somebody holds it open."""
    with disk_faults(), suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
