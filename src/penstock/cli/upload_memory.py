"""What `penstock upload` remembers of unfinished uploads, so that the next run can go on: a small file for each.

They lie in $XDG_STATE_HOME/penstock/uploads (else ~/.local/state/penstock/uploads), closed to others. The lock
on one says that a process is sending that file now. A memory that cannot be read counts as none, and one of a
file that has changed since is not used: only bytes of one and the same file are ever put together.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from penstock.cli.screen import Refusal
from penstock.kernel import json

_LOOKED_AT = 1 << 20  # bytes at either end of a file
_WORTH_KEEPING = 30 * 86400.0  # seconds; servers forget what is unfinished far sooner


@dataclass(frozen=True, slots=True)
class Likeness:
    """What tells one state of a file from another."""

    size: int
    mtime_ns: int
    ends: str  # SHA-256 of its first and last MiB

    @classmethod
    def of(cls, file: BinaryIO) -> "Likeness":
        found = os.fstat(file.fileno())
        digest = hashlib.sha256()
        for at in (0, max(0, found.st_size - _LOOKED_AT)):
            file.seek(at)
            digest.update(file.read(_LOOKED_AT))
        return cls(found.st_size, found.st_mtime_ns, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class Note:
    """One upload: its address, and the file it is made of."""

    url: str
    file: str
    likeness: Likeness
    finished: bool = False


class Remembered:
    """The memory of one file on one server; without a descriptor nothing is kept."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor
        self.note = None if descriptor is None else _read(descriptor)

    @property
    def works(self) -> bool:
        return self._descriptor is not None

    def keep(self, note: Note) -> None:
        self.note = note
        if self._descriptor is None:
            return
        text = json.dump_bytes(asdict(note))
        try:
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))
        except OSError:  # a full disk is no reason not to upload; the next run would begin anew
            self.forget()

    def forget(self) -> None:
        """Nothing to go on with. The lock is held until we leave."""
        self.note = None
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        if self._descriptor is None:
            return
        if self.note is None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        os.close(self._descriptor)


@contextlib.contextmanager
def remembering(server: str, file: Path) -> Iterator[Remembered]:
    """What is known of this file on this server; refused while another process is sending it."""
    name = hashlib.sha256(f"{server}\0{file}".encode(errors="surrogateescape")).hexdigest()
    path = directory() / f"{name[:40]}.json"
    try:
        descriptor = _locked(path)
    except OSError:  # no place to remember it in: an upload is still an upload
        descriptor = None
    remembered = Remembered(path, descriptor)
    try:
        yield remembered
    finally:
        remembered.close()


def directory() -> Path:
    named = os.environ.get("XDG_STATE_HOME", "")
    state = Path(named) if named.startswith("/") else Path("~/.local/state").expanduser()
    return state / "penstock" / "uploads"


def _locked(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _forget_old(path.parent)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Refusal(
                "Another `penstock` command is sending this file just now.", "另一个 penstock 命令正在上传该文件。"
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)  # whoever held it has just finished and removed it


def _forget_old(kept: Path) -> None:
    for each in kept.glob("*.json"):
        with contextlib.suppress(OSError):
            if each.stat().st_mtime < time.time() - _WORTH_KEEPING:
                each.unlink()


def _read(descriptor: int) -> Note | None:
    try:
        found = json.loads(os.pread(descriptor, 1 << 16, 0))
        return Note(**{**found, "likeness": Likeness(**found["likeness"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
