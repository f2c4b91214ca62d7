"""video.v1.UploadService: the calls of phones. What they mean is in uploads/direct; HTTP offers the same."""

from typing import Any

from penstock.bootstrap import Parts
from penstock.kernel.identity import Caller
from penstock.kernel.identity.access import SENDING, SIGNED_IN
from penstock.kernel.trusted_peers import TrustedPeers
from penstock.rpc.calls import Calls, Method
from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.uploads.direct.opening import Wish, open_upload
from penstock.uploads.direct.queries import get_upload

SERVICE: str = wire.DESCRIPTOR.services_by_name["UploadService"].full_name


def upload_calls(parts: Parts, trusted: TrustedPeers | None = None) -> Calls:
    """The calls; `trusted` is told of the connections over which signed-in ones come."""

    async def init(caller: Caller, asked: Any) -> Any:
        return await _init(parts, caller, asked)

    async def look(caller: Caller, asked: Any) -> Any:
        return await _look(parts, caller, asked)

    methods = {
        "InitResumableUpload": Method(SENDING, wire.InitResumableUploadRequest, init),
        "GetUpload": Method(SIGNED_IN, wire.GetUploadRequest, look),
    }
    return Calls(parts, SERVICE, methods, TrustedPeers() if trusted is None else trusted)


async def _init(parts: Parts, caller: Caller, asked: Any) -> Any:
    wish = Wish(
        asked.filename, asked.size_bytes, asked.content_type, asked.content_md5_hex, asked.duration_seconds or None,
        asked.video_id or None,
    )  # fmt: skip
    opened = await open_upload(parts.direct, caller, wish)
    row, start = opened.row, opened.start
    return wire.InitResumableUploadResponse(
        upload_id=str(row["upload_id"]),
        bucket=row["bucket"],
        object_name=row["object_name"],
        resumable_init_url=start.url if start else "",
        expires_at_unixms=int(start.expires_at.timestamp() * 1000) if start else 0,
        already_completed=opened.already_completed,
        resumable_init_headers=dict(start.headers) if start else {},
    )


async def _look(parts: Parts, caller: Caller, asked: Any) -> Any:
    async with parts.database.transaction() as tx:
        row = await get_upload(tx, caller, asked.upload_id)
    return wire.GetUploadResponse(
        status=row["status"],
        bucket=row["bucket"],
        object_name=row["object_name"],
        gcs_etag=row["gcs_etag"] or "",
        gcs_generation=row["gcs_generation"] or "",
        size_bytes=row["size_bytes"],
        md5_hash_hex=row["md5_hash"] or "",
    )
