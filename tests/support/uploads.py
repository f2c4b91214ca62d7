"""Uploads in the process of the test, where every line of a writer can be met."""

from pathlib import Path
from typing import Any

import pytest

from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.uploads.tus import Chunk, Uploads, UploadSettings

CALLER = Caller("u-1", "m-1", Role.UPLOADER)
WHOLE = b"a" * 1000 + b"b" * 1000


def uploads_in(home: Path, database: Database, **settings: Any) -> Uploads:
    (home / "uploads").mkdir(exist_ok=True)
    return Uploads(database, UploadSettings(**settings), SystemClock(), "here", home)


def body(*pieces: bytes):
    left = list(pieces)

    async def next_piece() -> bytes | None:
        return left.pop(0) if left else None

    return next_piece


async def row(database: Database, upload_id: str) -> dict[str, Any]:
    async with database.transaction() as tx:
        found = await fetch_one(tx, "select * from tus_uploads where upload_id = %s", (upload_id,))
    assert found is not None
    return found


async def suspected_long_ago(database: Database, upload_id: str) -> None:
    async with database.transaction() as tx:
        await tx.execute("update tus_uploads set leased_until = now() - interval '1 s' where upload_id = %s",
                         (upload_id,))  # fmt: skip


async def refused(append: Any) -> str:
    with pytest.raises(PenstockError) as refusal:
        await append
    return refusal.value.code.code


def rest(uploads: Uploads, upload_id: str, given: Any = None, owed: Any = None) -> Any:
    return uploads.append(upload_id, "m-1", Chunk(1000, checksum=owed), given or body(WHOLE[1000:]))
