"""What people and programs may ask of direct uploads."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from penstock.kernel import cursors, error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.uploads.direct import store
from penstock.uploads.direct.opening import as_uuid, user_uuid
from penstock.uploads.direct.store import Place, Row


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of a list."""

    merchant_id: str | None = None  # None: all that the caller sees
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Part:
    """The newest first."""

    rows: Sequence[Row]
    next_cursor: str | None


async def get_upload(tx: Tx, caller: Caller, upload_id: str) -> dict[str, Any]:
    """UPLOAD_NOT_FOUND also for another user's, unless the caller sees all."""
    row = await store.find(tx, known) if (known := as_uuid(upload_id)) else None
    mine = row is not None and row["merchant_id"] == caller.merchant_id and row["user_id"] == user_uuid(caller)
    if row is None or not (mine or caller.sees_all):
        raise PenstockError(error_codes.UPLOAD_NOT_FOUND, upload_id=upload_id[:100])
    return row


async def find_uploads(tx: Tx, caller: Caller, wanted: Wanted) -> Part:
    """The caller's own; operators and admins see everyone's."""
    place = _place(caller, wanted, "direct-uploads")
    user_id = None if caller.sees_all else user_uuid(caller)
    return _part(await store.page_of_uploads(tx, place, user_id), wanted, "direct-uploads", "upload_id")


async def find_videos(tx: Tx, caller: Caller, wanted: Wanted) -> Part:
    """Of the caller's merchant; operators and admins see everyone's."""
    rows = await store.page_of_videos(tx, _place(caller, wanted, "videos"))
    return _part(rows, wanted, "videos", "video_id")


def _place(caller: Caller, wanted: Wanted, question: str) -> Place:
    if wanted.merchant_id is not None and not caller.sees(wanted.merchant_id):
        raise PenstockError(error_codes.MERCHANT_DENIED, merchant=wanted.merchant_id)
    merchant = wanted.merchant_id or (None if caller.sees_all else caller.merchant_id)
    before = None
    if wanted.cursor is not None:
        moment, last = cursors.unpack(wanted.cursor, question, str, str)
        try:
            before = (datetime.fromisoformat(moment), UUID(last))
        except ValueError:
            raise PenstockError(error_codes.CURSOR_INVALID) from None
        if before[0].tzinfo is None:
            raise PenstockError(error_codes.CURSOR_INVALID)
    return Place(merchant, before, wanted.limit + 1)


def _part(rows: Sequence[Row], wanted: Wanted, question: str, key: str) -> Part:
    if len(rows) <= wanted.limit:
        return Part(rows, None)
    last = rows[wanted.limit - 1]
    return Part(rows[: wanted.limit], cursors.pack(question, last["created_at"].isoformat(), str(last[key])))
