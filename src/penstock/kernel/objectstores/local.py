"""A directory as an object store, durable.

obstore's own local put renames without fsync: after a power cut a name may stand for an empty file, and an
object that was answered with success may be gone. So writing is done here: temporary file below `.tmp`,
fsync, rename (or link, which refuses a taken name), fsync of the directory. Reading is obstore's.
A writer that is killed leaves only a file below `.tmp`, which no key can name and `sweep` removes.
"""

import asyncio
import errno
import hashlib
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import timedelta
from io import RawIOBase
from itertools import islice
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from obstore.store import LocalStore as ObstoreLocal

from penstock.kernel import error_codes
from penstock.kernel.disk import free_bytes
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import Body, ContentRef, SignedMethod, check_key, content_key
from penstock.kernel.objectstores.pieces import pieces_of
from penstock.kernel.objectstores.reading import TEMPORARY, Reading, wrapped

_OPEN_AT_ONCE = 32
Placed = TypeVar("Placed")
_NO_SECOND_NAME = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOENT, errno.ENOTSUP}


class LocalStore(Reading):
    """Objects are files below a root; several processes may share it. OSError when it cannot be made."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()
        self._temporary = self._root / TEMPORARY
        _make_directories(self._temporary)
        super().__init__(ObstoreLocal(self._root))

    async def put(self, key: str, body: Body) -> None:
        target = self._root / check_key(key)
        with wrapped(key, writing=True):
            if isinstance(body, bytes):  # most are small: one trip to a thread does it all
                await asyncio.to_thread(_put, body, self._temporary / uuid4().hex, target, _replace)
                return
            async with self._written(body) as temporary:
                await asyncio.to_thread(_replace, temporary, target)

    async def put_all(self, objects: Mapping[str, bytes]) -> None:
        targets = iter([(self._root / check_key(key), body) for key, body in objects.items()])
        while some := dict(islice(targets, _OPEN_AT_ONCE)):
            with wrapped(next(iter(objects)), writing=True):
                await asyncio.to_thread(_put_all, some, self._temporary)

    async def put_file(self, key: str, path: Path) -> None:
        """A second name for the file where its device is ours; a copy elsewhere."""
        target = self._root / check_key(key)
        temporary = self._temporary / uuid4().hex
        with wrapped(key, writing=True):
            try:
                shared = await asyncio.to_thread(_share, path, temporary)
                if shared:
                    await asyncio.to_thread(_replace, temporary, target)
            finally:
                temporary.unlink(missing_ok=True)  # renaming one name of a file to another of its names does nothing
        if not shared:
            await self.put(key, path)

    @asynccontextmanager
    async def on_disk(self, key: str, directory: Path | None = None) -> AsyncIterator[Path]:  # noqa: ARG002  no copy
        path = self._root / check_key(key)
        if not path.is_file():
            raise PenstockError(error_codes.NOT_FOUND, key=key)
        yield path

    async def peek(self, key: str, length: int) -> tuple[int, bytes]:
        path = self._root / check_key(key)
        with wrapped(key):
            return await asyncio.to_thread(_peek, path, length)

    async def free_bytes(self) -> int | None:
        return await asyncio.to_thread(free_bytes, self._root)

    async def put_if_absent(self, key: str, body: bytes) -> bool:
        target = self._root / check_key(key)
        with wrapped(key, writing=True):
            return await asyncio.to_thread(_put, body, self._temporary / uuid4().hex, target, _link)

    async def put_content(self, body: Body, *, sha256: str | None = None) -> ContentRef:
        if sha256 is not None and (there := await self._held(sha256)) is not None:
            return there
        digest, size = hashlib.sha256(), 0

        async def hashed() -> AsyncIterator[bytes]:
            nonlocal size
            async for piece in pieces_of(body):
                await asyncio.to_thread(digest.update, piece)
                size += len(piece)
                yield piece

        with wrapped("sha256", writing=True):
            async with self._written(hashed()) as temporary:
                name = digest.hexdigest()
                ref = ContentRef(name, size, content_key(name))
                await asyncio.to_thread(_link, temporary, self._root / ref.key)
                return ref

    async def _held(self, sha256: str) -> ContentRef | None:
        key = content_key(sha256)
        with wrapped(key, writing=True):
            size = await asyncio.to_thread(_durable_size, self._root / check_key(key))
        return None if size is None else ContentRef(sha256, size, key)

    async def delete(self, key: str) -> None:
        path = self._root / check_key(key)
        with wrapped(key), suppress(FileNotFoundError, NotADirectoryError):
            await asyncio.to_thread(_remove, path)

    async def signed_url(self, key: str, *, method: SignedMethod = "GET", lasts: timedelta) -> str:  # noqa: ARG002
        raise PenstockError(error_codes.STORE_CANNOT_SIGN, key=check_key(key), store="file://")

    async def sweep(self, *, older_than: timedelta) -> int:
        with wrapped(TEMPORARY):
            return await asyncio.to_thread(_sweep, self._temporary, time.time() - older_than.total_seconds())

    @asynccontextmanager
    async def _written(self, body: Body) -> AsyncIterator[Path]:
        """The body, durable in a temporary file that is gone when the block ends."""
        temporary = self._temporary / uuid4().hex
        try:
            with temporary.open("xb", buffering=0) as file:
                async for piece in pieces_of(body):
                    await asyncio.to_thread(_write_all, file, piece)
                await asyncio.to_thread(os.fsync, file.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def _put(body: bytes, temporary: Path, target: Path, place: Callable[[Path, Path], Placed]) -> Placed:
    try:
        with temporary.open("xb", buffering=0) as file:
            _write_all(file, body)
            os.fsync(file.fileno())
        return place(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _put_all(objects: Mapping[Path, bytes], directory: Path) -> None:
    """All are written before the first is waited for: a file system makes them durable together."""
    temporaries, changed = {target: directory / uuid4().hex for target in objects}, dict[Path, None]()
    try:
        with ExitStack() as opened:
            files = []
            for target, temporary in temporaries.items():
                files.append(opened.enter_context(temporary.open("xb", buffering=0)))
                _write_all(files[-1], objects[target])
            for file in files:
                os.fsync(file.fileno())
        for target, temporary in temporaries.items():
            changed |= dict.fromkeys([*_made_directories(target.parent), target.parent])
            temporary.replace(target)
    finally:
        for folder in changed:  # also when it fails in the middle: others rely on a directory that is there
            _sync_directory(folder)
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)


def _peek(path: Path, length: int) -> tuple[int, bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except NotADirectoryError:  # below an object there is nothing
        raise FileNotFoundError(errno.ENOENT, "No such object", str(path)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "No such object", str(path))
        return status.st_size, os.pread(descriptor, length, 0)
    finally:
        os.close(descriptor)


def _durable_size(path: Path) -> int | None:
    """None where there is no such file. Another may have placed it an instant ago: its name is durable afterwards."""
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
    _sync_directory(path.parent)
    return size


def _write_all(file: RawIOBase, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _share(path: Path, temporary: Path) -> bool:
    """False where the file cannot have a second name here: another device, no such file, not a plain file."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        os.link(path, temporary)
    except OSError as failure:
        if failure.errno in _NO_SECOND_NAME:
            return False
        raise
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    return True


def _replace(temporary: Path, target: Path) -> None:
    _make_directories(target.parent)
    temporary.replace(target)
    _sync_directory(target.parent)


def _link(temporary: Path, target: Path) -> bool:
    """True if we placed it. Either way the name is durable: another may have placed it an instant ago."""
    _make_directories(target.parent)
    try:
        os.link(temporary, target)
    except FileExistsError:
        placed = False
    else:
        placed = True
    _sync_directory(target.parent)
    return placed


def _remove(path: Path) -> None:
    if path.is_dir():
        return
    path.unlink()
    _sync_directory(path.parent)


def _make_directories(path: Path) -> None:
    for parent in _made_directories(path):
        _sync_directory(parent)


def _made_directories(path: Path) -> list[Path]:
    """Those that hold a new one, the outermost first, for the caller to sync: a new directory's name must be as durable
    as what is put into it, but one sync after all is enough."""
    if path.is_dir():
        return []
    changed = _made_directories(path.parent)
    try:
        path.mkdir()
    except FileExistsError:  # somebody was faster, or it is something else
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path)) from None
    return [*changed, path.parent]


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(folder: Path, before: float) -> int:
    swept = 0
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if entry.stat().st_mtime < before:
                Path(entry).unlink()
                swept += 1
    return swept
