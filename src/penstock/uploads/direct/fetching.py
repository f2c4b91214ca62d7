"""The object of a completed upload, on our own disk for a while: there, whole, and what the bucket said it is.

It lies in the directory of uploads under a name of its own; what a killed process leaves there, the hourly sweep of
that directory removes.
"""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.disk import free_bytes
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct.ports import Bucket, ObjectFacts
from penstock.uploads.tus.files import disk_faults, remove

_SPARE_BYTES = 64 << 20
_PIECE = 4 << 20


@asynccontextmanager
async def fetched(bucket: Bucket, row: Mapping[str, Any], directory: Path) -> AsyncIterator[Path]:
    """Gone when the block ends, unless moved away. NOT_FOUND: the bucket does not have it any more."""
    path = directory / f"upl_{row['upload_id'].hex}.{secrets.token_hex(4)}.part"
    free = free_bytes(directory)
    if free < row["size_bytes"] + _SPARE_BYTES:
        needed = row["size_bytes"] + _SPARE_BYTES
        raise PenstockError(error_codes.DISK_FULL, free_bytes=free, needed_bytes=needed)
    try:
        with disk_faults():
            await bucket.fetch(_facts(row), path)
            await asyncio.to_thread(_check, path, row)
        yield path
    finally:
        await asyncio.to_thread(remove, path)


def _facts(row: Mapping[str, Any]) -> ObjectFacts:
    return ObjectFacts(
        row["bucket"], row["object_name"], row["gcs_generation"], row["size_bytes"], row["content_type"],
        row["md5_hash"], row["crc32c"], row["gcs_etag"],
    )  # fmt: skip


def _check(path: Path, row: Mapping[str, Any]) -> None:
    """A copy that went wrong on its way must not be judged as if the phone had sent that."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
        size = file.tell()
    if (size, digest.hexdigest()) != (row["size_bytes"], row["content_md5"]):
        reason = f"the bucket gave {size} bytes that are not those of the object"
        raise PenstockError(error_codes.STORE_UNAVAILABLE, reason=reason, object=row["object_name"])
