"""SQL of uploads whose bytes come in parts."""

from uuid import UUID

from penstock.kernel.db import Tx, fetch_one
from penstock.uploads.direct.store import Row


async def change_session(tx: Tx, upload_id: UUID, old: str | None, new: str | None) -> Row | None:
    """One multipart upload takes the place of another that is gone; None: somebody was faster, or it is over."""
    return await fetch_one(
        tx,
        "update catalog.uploads set multipart_id = %(new)s, updated_at = now() where upload_id = %(id)s"
        " and multipart_id is not distinct from %(old)s and status = 'uploading' returning *",
        {"id": upload_id, "old": old, "new": new},
    )


async def look_now(tx: Tx, upload_id: UUID) -> Row | None:
    """The object is there: whoever attends to uploads shall see for himself."""
    return await fetch_one(
        tx,
        "update catalog.uploads set due_at = now(), looks = 0, updated_at = now()"
        " where upload_id = %s and status in ('pending', 'uploading') returning *",
        (upload_id,),
    )
