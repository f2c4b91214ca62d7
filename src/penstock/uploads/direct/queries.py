"""What people and programs may ask of direct uploads."""

from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.uploads.direct import store
from penstock.uploads.direct.opening import as_uuid, user_uuid


async def get_upload(tx: Tx, caller: Caller, upload_id: str) -> dict[str, Any]:
    """UPLOAD_NOT_FOUND also for another user's, unless the caller sees all."""
    row = await store.find(tx, known) if (known := as_uuid(upload_id)) else None
    mine = row is not None and row["merchant_id"] == caller.merchant_id and row["user_id"] == user_uuid(caller)
    if row is None or not (mine or caller.sees_all):
        raise PenstockError(error_codes.UPLOAD_NOT_FOUND, upload_id=upload_id[:100])
    return row
