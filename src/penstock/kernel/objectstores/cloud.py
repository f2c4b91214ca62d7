"""S3 and Google Cloud Storage through obstore.

Small bodies go in one request, streams as a multipart upload that obstore aborts when the body fails; both
become visible whole or not at all. Content is hashed before it is sent and again while it is sent, so that
a file which changes in between can never stand under the wrong name. A killed writer leaves parts that only
the bucket's own lifecycle rule can remove ("abort incomplete multipart uploads").
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import from_url

from penstock.kernel import error_codes
from penstock.kernel.errors import Kind, PenstockError
from penstock.kernel.objectstore import Body, ContentRef, SignedMethod, check_key, content_key
from penstock.kernel.objectstores.pieces import pieces_of
from penstock.kernel.objectstores.reading import Reading, wrapped

_PART_BYTES = 8 * 1024 * 1024
_PARTS_AT_ONCE = 4  # bounds memory to 32 MiB per stream
_PUTS_AT_ONCE = 8
_CLIENT = {
    "connect_timeout": timedelta(seconds=5),
    "read_timeout": timedelta(seconds=30),
    "timeout": timedelta(hours=1),
}
_RETRY = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}


class CloudStore(Reading):
    """A bucket, or a prefix of one."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        given = dict(options)
        client = _CLIENT | given.pop("client_options", {})
        retry = _RETRY | given.pop("retry_config", {})
        super().__init__(from_url(url, client_options=client, retry_config=retry, **given))

    async def put(self, key: str, body: Body) -> None:
        with wrapped(check_key(key), writing=True):
            await self._send(key, body if isinstance(body, bytes) else pieces_of(body))

    async def put_all(self, objects: Mapping[str, bytes]) -> None:
        waiting = iter(objects.items())

        async def put_some() -> None:
            for key, body in waiting:
                await self.put(key, body)

        putting = (put_some() for _ in range(min(_PUTS_AT_ONCE, len(objects))))
        for ended in await asyncio.gather(*putting, return_exceptions=True):  # none goes on after we have raised
            if isinstance(ended, BaseException):
                raise ended

    async def put_file(self, key: str, path: Path) -> None:
        await self.put(key, path)

    @asynccontextmanager
    async def on_disk(self, key: str, directory: Path | None = None) -> AsyncIterator[Path]:
        """A temporary copy."""
        with wrapped(key, writing=True):
            if directory is not None:
                await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
            opened = tempfile.NamedTemporaryFile(prefix="penstock-", dir=directory)  # noqa: SIM115  closed below
        with opened as copy:
            async for piece in self.stream(key):
                with wrapped(key, writing=True):
                    await asyncio.to_thread(copy.write, piece)
            copy.flush()
            yield Path(copy.name)

    async def free_bytes(self) -> int | None:
        return None

    async def put_if_absent(self, key: str, body: bytes) -> bool:
        with wrapped(check_key(key), writing=True):
            try:
                await obstore.put_async(self._store, key, body, mode="create")
            except AlreadyExistsError:
                return False
            return True

    async def put_content(self, body: Body, *, sha256: str | None = None) -> ContentRef:
        if sha256 is not None and (there := await self._held(sha256)) is not None:
            return there
        async with _rereadable(body) as source:
            digest, size = await _digest(source)
            ref = ContentRef(digest, size, content_key(digest))
            if not await self._holds(ref):
                with wrapped(ref.key, writing=True):
                    await self._send(ref.key, source if isinstance(source, bytes) else _verified(source, ref))
            return ref

    async def delete(self, key: str) -> None:
        try:
            with wrapped(check_key(key)):
                await obstore.delete_async(self._store, key)
        except PenstockError as failure:
            if failure.kind is not Kind.NOT_FOUND:
                raise

    async def signed_url(self, key: str, *, method: SignedMethod = "GET", lasts: timedelta) -> str:
        with wrapped(check_key(key)):
            return str(await obstore.sign_async(self._store, method, key, lasts))

    async def sweep(self, *, older_than: timedelta) -> int:  # noqa: ARG002  the bucket's lifecycle rule does it
        return 0

    async def _send(self, key: str, body: bytes | AsyncIterator[bytes]) -> None:
        await obstore.put_async(self._store, key, body, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

    async def _holds(self, ref: ContentRef) -> bool:
        return await self._held(ref.sha256) == ref

    async def _held(self, sha256: str) -> ContentRef | None:
        key = content_key(sha256)
        try:
            return ContentRef(sha256, (await self.head(key)).size, key)
        except PenstockError as failure:
            if failure.kind is not Kind.NOT_FOUND:
                raise
            return None


@asynccontextmanager
async def _rereadable(body: Body) -> AsyncIterator[bytes | Path]:
    """A stream is kept on disk, because its name is known only when it has ended."""
    if isinstance(body, bytes | Path):
        yield body
        return
    with tempfile.NamedTemporaryFile(prefix="penstock-") as spool, wrapped("sha256"):
        async for piece in pieces_of(body):
            await asyncio.to_thread(spool.write, piece)
        spool.flush()
        yield Path(spool.name)


async def _digest(source: bytes | Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with wrapped(str(source) if isinstance(source, Path) else "sha256"):
        async for piece in pieces_of(source):
            await asyncio.to_thread(digest.update, piece)
            size += len(piece)
    return digest.hexdigest(), size


async def _verified(source: Path, ref: ContentRef) -> AsyncIterator[bytes]:
    """Raising in the middle of a body makes obstore abort the upload."""
    digest = hashlib.sha256()
    async for piece in pieces_of(source):
        digest.update(piece)
        yield piece
    if digest.hexdigest() != ref.sha256:
        raise PenstockError(error_codes.REQUEST_INVALID, reason="the file changed while it was being stored")
