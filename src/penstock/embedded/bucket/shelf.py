"""Files that survive a kill: records are written beside, synced and renamed; bytes are synced before we speak of them.

objects/   a record per name        sessions/  a record per session      data/   bytes, named at random
dead/      notifications given up   tmp/       of a write that was cut off; emptied at the start
lock       one process holds the directory; the kernel frees it when that process dies
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import msgspec
import structlog

from penstock.embedded.bucket.records import ObjectRecord, SessionRecord
from penstock.embedded.failure import EmbeddedFailure, cannot_use
from penstock.kernel import failpoints

log = structlog.get_logger(__name__)
Record = TypeVar("Record", ObjectRecord, SessionRecord)


class Shelf:
    """One directory; every call blocks, so it is made in a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._objects, self._sessions, self._data = root / "objects", root / "sessions", root / "data"
        self._dead, self._temporary = root / "dead", root / "tmp"
        self._lock: int | None = None

    def open(self) -> None:
        """Hold it; a sentence says why it cannot be held."""
        try:
            shutil.rmtree(self._temporary, ignore_errors=True)
            for folder in (self._objects, self._sessions, self._data, self._dead, self._temporary):
                folder.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as failure:
            raise cannot_use(self.root, failure) from failure
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise EmbeddedFailure(
                f"{self.root} is in use by another `penstock bucket`: stop it, or set BUCKET_DIRECTORY.",
                f"{self.root} 正被另一个 penstock bucket 使用：请先停止它，或设置 BUCKET_DIRECTORY。",
            ) from None

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def objects(self) -> Iterator[tuple[str, ObjectRecord]]:
        return _records(self._objects, ObjectRecord)

    def sessions(self) -> Iterator[tuple[str, SessionRecord]]:
        return _records(self._sessions, SessionRecord)

    def write_object(self, key: str, record: ObjectRecord) -> None:
        self._write(self._objects / key, msgspec.json.encode(record))

    def remove_object(self, key: str) -> None:
        _remove(self._objects / key)

    def write_session(self, record: SessionRecord) -> None:
        self._write(self._sessions / record.key, msgspec.json.encode(record))

    def remove_session(self, key: str) -> None:
        _remove(self._sessions / key)

    def bury(self, name: str, content: bytes) -> None:
        self._write(self._dead / name, content)

    def new_data(self) -> str:
        return uuid4().hex

    def data(self, name: str) -> Path:
        return self._data / name

    def written_at(self, name: str) -> int:
        """When bytes were last written to the file, in nanoseconds; 0: it has none, or there is no such file."""
        try:
            found = self.data(name).stat()
        except FileNotFoundError:
            return 0
        return found.st_mtime_ns if found.st_size else 0

    def share_data(self, name: str) -> str:
        """A second name for the same bytes, which neither owner will ever change."""
        other = self.new_data()
        os.link(self.data(name), self.data(other))
        return other

    def remove_data(self, name: str) -> None:
        self.data(name).unlink(missing_ok=True)

    def sync_names(self) -> None:
        """Data files are there under their names, whatever happens."""
        _sync_directory(self._data)

    def keep_only(self, names: set[str]) -> None:
        """What nothing refers to was left by somebody who was killed."""
        for entry in os.scandir(self._data):
            if entry.name not in names:
                with suppress(FileNotFoundError):
                    Path(entry).unlink()

    def _write(self, target: Path, content: bytes) -> None:
        temporary = self._temporary / uuid4().hex
        try:
            with temporary.open("xb", buffering=0) as file:
                file.write(content)
                os.fsync(file.fileno())
            failpoints.reach("bucket.record_written")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(target.parent)


def _records(folder: Path, kind: type[Record]) -> Iterator[tuple[str, Record]]:
    for entry in os.scandir(folder):
        try:
            yield entry.name, msgspec.json.decode(Path(entry).read_bytes(), type=kind)
        except (msgspec.DecodeError, OSError) as wrong:  # none of ours: we never leave half a record
            log.warning("bucket.record_unreadable", file=entry.name, reason=str(wrong))


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
