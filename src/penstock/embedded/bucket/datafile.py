"""Bytes on their way into a data file, with their hashes running along. Blocks: call it in threads, one at a time."""

import base64
import errno
import hashlib
import os
from pathlib import Path

import google_crc32c

from penstock.embedded.bucket.ledger import Bytes

_PIECE = 1024 * 1024


class DataFile:
    """Open for writing; `size` bytes of it are ours, and what lies behind them is cut off."""

    def __init__(self, path: Path, *, keep_free: int, whole: int | None = None) -> None:
        """`whole`: go on with what is there, as far as it is a multiple of this. `keep_free`: bytes of the disk."""
        self.name = path.name
        self._keep_free = keep_free
        self.size = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._crc = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._dirty = True
        try:
            there = os.fstat(self._descriptor).st_size
            self._hash(there // whole * whole if whole else 0)
            os.ftruncate(self._descriptor, self.size)
        except BaseException:
            self.close()
            raise

    def append(self, piece: bytes) -> None:
        disk = os.fstatvfs(self._descriptor)
        if disk.f_bavail * disk.f_frsize < len(piece) + self._keep_free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest, at = memoryview(piece), self.size
        self._dirty = True
        while rest:
            written = os.pwrite(self._descriptor, rest, at)
            rest, at = rest[written:], at + written
        self._count(piece)

    def sync(self) -> None:
        if self._dirty:
            os.fsync(self._descriptor)
            self._dirty = False

    def reopen(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._descriptor)

    def contents(self, session: str | None = None) -> Bytes:
        return Bytes(
            self.name, self.size, _base64(self._md5.digest()), _base64(self._crc.to_bytes(4, "big")), session
        )  # fmt: skip

    def _hash(self, length: int) -> None:
        while self.size < length:
            piece = os.pread(self._descriptor, min(_PIECE, length - self.size), self.size)
            if not piece:
                return
            self._count(piece)

    def _count(self, piece: bytes) -> None:
        self._md5.update(piece)
        self._crc = google_crc32c.extend(self._crc, piece)
        self.size += len(piece)


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
