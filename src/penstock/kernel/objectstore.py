"""The object store's port: what the rest of Penstock may ask of `file://`, `s3://` and `gs://`.

A put that returned is durable, and a reader sees all of an object or none of it. Content that can name
itself goes through `put_content` and lives under its SHA-256, so the same bytes are stored once. Keys are
relative, printable and checked before any store sees them. Failures arrive as `PenstockError`: NOT_FOUND,
STORE_UNAVAILABLE, DISK_FULL, or REQUEST_INVALID for a key that no store should hold.
"""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

Body = bytes | Path | AsyncIterable[bytes]
SignedMethod = Literal["GET", "PUT"]

_LONGEST_KEY = 800  # bytes; S3 and GCS allow 1,024 with the bucket's prefix
_LONGEST_SEGMENT = 240  # bytes; file systems allow 255
_FORBIDDEN = frozenset('\\%#?*"<>|:{}^[]~`')  # stores escape these differently, or not at all


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store knows of an object without reading it."""

    key: str
    size: int
    etag: str | None
    modified: datetime


@dataclass(frozen=True, slots=True)
class ContentRef:
    """Content that is stored, named by itself."""

    sha256: str
    size: int
    key: str


class ObjectStore(Protocol):
    """Objects by key. Every method may raise the errors named at the top of this file."""

    async def put(self, key: str, body: Body) -> None:
        """Write or replace an object."""

    async def put_all(self, objects: Mapping[str, bytes]) -> None:
        """As `put` of each, in no order, for less: when it fails, any of them may have been written."""

    async def put_file(self, key: str, path: Path) -> None:
        """As `put` of a file that nobody will change any more: where possible it is shared instead of copied."""

    async def put_if_absent(self, key: str, body: bytes) -> bool:
        """Write unless the key is taken; False when it was. Of several racing writers one gets True."""

    async def put_content(self, body: Body, *, sha256: str | None = None) -> ContentRef:
        """Store content under its SHA-256; content that is already there is not written again.

        Whoever has just computed the SHA-256 names it: then content that is there is not even read.
        """

    async def get(self, key: str) -> bytes: ...

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """The bytes that exist of the range: fewer, or none, beyond the end."""

    async def peek(self, key: str, length: int) -> tuple[int, bytes]:
        """How large it is, and as many of its first bytes."""

    def stream(self, key: str) -> AsyncIterator[bytes]:
        """The object in pieces; NOT_FOUND comes with the first."""

    def on_disk(self, key: str, directory: Path | None = None) -> AbstractAsyncContextManager[Path]:
        """The object as a file to read, as long as the block lasts; programs that want a path get it so. Where a copy
        is needed it is made in `directory`, or where the system has its temporary files."""

    async def free_bytes(self) -> int | None:
        """Room that is left; None where the store has no end."""

    async def head(self, key: str) -> ObjectInfo: ...

    def list(self, folder: str = "") -> AsyncIterator[ObjectInfo]:
        """All objects below a folder, in no promised order, fetched page by page."""

    async def delete(self, key: str) -> None:
        """Remove an object; a key that does not exist is as good as removed."""

    async def signed_url(self, key: str, *, method: SignedMethod = "GET", lasts: timedelta) -> str:
        """An address that works without credentials; STORE_CANNOT_SIGN where the store has none."""

    async def sweep(self, *, older_than: timedelta) -> int:
        """Remove what writers that were killed left behind; how many leftovers went."""


def content_key(sha256: str) -> str:
    """Two levels of folders keep each of them small."""
    return f"sha256/{sha256[:2]}/{sha256[2:4]}/{sha256}"


def check_key(key: str) -> str:
    """The key itself, or REQUEST_INVALID with the reason."""
    reason = _fault_of(key)
    if reason is not None:
        raise PenstockError(error_codes.REQUEST_INVALID, key=key[:100], reason=reason)
    return key


def _fault_of(key: str) -> str | None:
    if not key.isprintable() or not _FORBIDDEN.isdisjoint(key):
        return f"an object key is printable and has none of {' '.join(sorted(_FORBIDDEN))}"
    if len(key.encode()) > _LONGEST_KEY:
        return f"an object key has at most {_LONGEST_KEY} bytes"
    for segment in key.split("/"):
        if not segment:
            return "an object key is not empty, has no slash at either end and never two in a row"
        if segment.startswith(".") or segment != segment.strip():
            return "no part of an object key starts with a dot, or starts or ends with a space"
        if len(segment.encode()) > _LONGEST_SEGMENT:
            return f"each part of an object key has at most {_LONGEST_SEGMENT} bytes"
    return None
