"""What every adapter does alike: reading through obstore, and wrapping its errors once.

obstore turns foreign failures into `FileNotFoundError` or its own `BaseError`; nothing above this folder
sees either. Only the first line of a foreign message is kept: the rest is a dump of requests.
"""

import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import obstore
from obstore.exceptions import BaseError

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import ObjectInfo, check_key

TEMPORARY = ".tmp"  # below the root of a local store; no key can start with a dot
PIECE_BYTES = 1024 * 1024
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WRONG_KIND = {errno.ENOTDIR, errno.EISDIR}


class BodyFailed(Exception):
    """The caller's own body raised while we read it: its error is the caller's and goes back as it was."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(str(failure))
        self.failure = failure


@contextmanager
def wrapped(key: str, *, writing: bool = False) -> Iterator[None]:
    """Foreign errors become ours, once. A writer that finds nothing has lost the bucket or the directory."""
    try:
        yield
    except BodyFailed as body:
        raise body.failure from None
    except FileNotFoundError as failure:
        if writing:
            reason = "the bucket or directory does not exist"
            raise PenstockError(error_codes.STORE_UNAVAILABLE, key=key, reason=reason) from failure
        raise PenstockError(error_codes.NOT_FOUND, key=key) from None
    except OSError as failure:
        if failure.errno in _FULL:
            raise PenstockError(error_codes.DISK_FULL, key=key) from failure
        if failure.errno in _WRONG_KIND:
            reason = "a part of this key is an object already, or the key is a folder"
            raise PenstockError(error_codes.REQUEST_INVALID, key=key, reason=reason) from failure
        raise PenstockError(error_codes.STORE_UNAVAILABLE, key=key, reason=failure.strerror) from failure
    except BaseError as failure:
        reason = str(failure).partition("\n")[0][:300]
        if "Not a directory" in reason:  # below an object of a local store there is nothing
            raise PenstockError(error_codes.NOT_FOUND, key=key) from None
        raise PenstockError(error_codes.STORE_UNAVAILABLE, key=key, reason=reason) from failure


class Reading:
    """The reading half of the port, over any store of obstore's."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def get(self, key: str) -> bytes:
        with wrapped(check_key(key)):
            result = await obstore.get_async(self._store, key)
            return bytes(await result.bytes_async())

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if start < 0 or length < 0:
            raise PenstockError(
                error_codes.REQUEST_INVALID, start=start, length=length, reason="a range is not negative"
            )
        info = await self.head(key)  # stores disagree about ranges beyond the end, so they never see one
        return await self._range(key, start, min(length, info.size - start))

    async def peek(self, key: str, length: int) -> tuple[int, bytes]:
        size = (await self.head(key)).size
        return size, await self._range(key, 0, min(length, size))

    async def _range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:
            return b""
        with wrapped(key):
            return bytes(await obstore.get_range_async(self._store, key, start=start, length=length))

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        with wrapped(check_key(key)):
            result = await obstore.get_async(self._store, key)
            async for piece in result.stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    async def head(self, key: str) -> ObjectInfo:
        with wrapped(check_key(key)):
            return _info(await obstore.head_async(self._store, key))

    async def list(self, folder: str = "") -> AsyncIterator[ObjectInfo]:
        folder = folder.rstrip("/")
        with wrapped(check_key(folder) if folder else folder):
            async for page in obstore.list(self._store, folder or None, chunk_size=500):
                for found in page:
                    if not found["path"].startswith(TEMPORARY):
                        yield _info(found)


def _info(found: Any) -> ObjectInfo:
    return ObjectInfo(found["path"], found["size"], found["e_tag"], found["last_modified"])
