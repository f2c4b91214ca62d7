"""Videos: made by people or by a file that came, moved on by the media pipeline."""

from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.db import Tx, server_time
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.statemachine import Step, move
from penstock.uploads.direct import finishing, store
from penstock.uploads.direct.opening import as_uuid, user_uuid
from penstock.uploads.direct.states import VIDEO, VideoStatus


async def create_video(tx: Tx, caller: Caller, title: str) -> dict[str, Any]:
    """It waits for its file: name it when the upload is opened."""
    return await finishing.new_video(tx, user_uuid(caller), caller.merchant_id, title, by="uploads")


async def get_video(tx: Tx, caller: Caller, video_id: str) -> dict[str, Any]:
    """VIDEO_NOT_FOUND also for another merchant's."""
    row = await store.find_video(tx, known) if (known := as_uuid(video_id)) else None
    if row is None or not caller.sees(row["merchant_id"]):
        raise PenstockError(error_codes.VIDEO_NOT_FOUND, video_id=video_id[:100])
    return row


async def move_on(
    tx: Tx, caller: Caller, video_id: str, target: VideoStatus, *, reason: str | None = None
) -> dict[str, Any]:
    """What the media pipeline says; said twice is no news. STATE_CHANGED for a step that does not follow."""
    row = await get_video(tx, caller, video_id)
    source = VideoStatus(row["status"])
    if source is target:
        return row
    if VIDEO.find(source, target) is None or "media" not in VIDEO.declared(source, target, "media").by:
        raise PenstockError(error_codes.STATE_CHANGED, entity="video", status=source.value, wanted=target.value)
    changes: dict[str, Any] = {"updated_at": await server_time(tx)}
    if target is VideoStatus.FAILED:
        changes |= {"error_code": "MEDIA_FAILED", "error_message": reason}
    step = Step(
        str(row["video_id"]), source, target, by="media", trigger="reported", operator=caller.user_id,
        payload={"video_id": str(row["video_id"]), "reason": reason}, changes=changes,
    )  # fmt: skip
    return await move(tx, VIDEO, step)
