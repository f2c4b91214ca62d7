"""Direct uploads: announce a file, learn where to send it, look what came of it."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from starlette.requests import Request

from penstock.api import direct_examples as examples
from penstock.api.errors import language_of
from penstock.api.examples import answer
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.routes.direct_shapes import (
    DirectUpload,
    DirectUploads,
    ListedPart,
    NewDirectUpload,
    OpenedUpload,
    WantedParts,
    direct_upload,
    opened_upload,
    parts_to_send,
)
from penstock.api.routes.direct_shapes import Parts as PartsToSend
from penstock.bootstrap import Parts
from penstock.kernel import error_codes
from penstock.uploads.direct.opening import open_upload
from penstock.uploads.direct.parts import complete, next_parts, part_bytes
from penstock.uploads.direct.queries import find_uploads, get_upload

router = APIRouter(route_class=GuardedRoute, tags=["direct uploads"])

UploadId = Annotated[UUID, Path(description="The upload, as it was named", examples=[examples.UPLOAD_ID])]
_REFUSALS = (
    error_codes.DIRECT_UPLOADS_OFF,
    error_codes.DIRECT_TYPE_REFUSED,
    error_codes.FILE_SIZE_EXCEEDED,
    error_codes.VIDEO_TOO_LONG,
    error_codes.DIRECT_UPLOAD_DIFFERS,
    error_codes.UPLOAD_SLOTS_FULL,
    error_codes.VIDEO_NOT_FOUND,
    error_codes.VIDEO_TAKEN,
    error_codes.STATE_CHANGED,
    error_codes.STORE_UNAVAILABLE,
)
_IN_PARTS = (
    error_codes.DIRECT_UPLOADS_OFF,
    error_codes.DIRECT_NO_PARTS,
    error_codes.UPLOAD_NOT_FOUND,
    error_codes.SESSION_EXPIRED,
    error_codes.STATE_CHANGED,
    error_codes.STORE_UNAVAILABLE,
)


@router.post(
    "/api/v1/direct-uploads",
    summary="Announce a file and learn where to send it",
    openapi_extra=may_fail_with(*_REFUSALS),
)
async def announce_upload(request: Request, caller: SignedIn, body: NewDirectUpload) -> OpenedUpload:
    """The same content of the same user is the same upload, however often it is announced; a failed one begins anew.
    When the bucket answers 412 to the last bytes, ask for the upload: an earlier try may have succeeded.
    """
    parts: Parts = request.app.state.parts
    opened = await open_upload(parts.direct, caller, body.wish())
    return opened_upload(opened, part_bytes(parts.direct, opened.row))


@router.get(
    "/api/v1/direct-uploads",
    summary="Direct uploads, newest first",
    openapi_extra=may_fail_with(error_codes.MERCHANT_DENIED, error_codes.CURSOR_INVALID),
)
async def list_uploads(request: Request, caller: SignedIn, asked: Annotated[ListedPart, Query()]) -> DirectUploads:
    """The caller's own, part by part; operators and admins see everyone's."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        part = await find_uploads(tx, caller, asked.wanted())
    language = language_of(request)
    return DirectUploads(uploads=[direct_upload(row, language) for row in part.rows], next_cursor=part.next_cursor)


@router.get(
    "/api/v1/direct-uploads/{upload_id}",
    summary="One direct upload",
    openapi_extra=may_fail_with(error_codes.UPLOAD_NOT_FOUND),
)
async def look_at_upload(request: Request, caller: SignedIn, upload_id: UploadId) -> DirectUpload:
    """Complete as soon as the bucket has told us of the object and it is what was announced: usually within a second
    of the last byte.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        row = await get_upload(tx, caller, str(upload_id))
    return direct_upload(row, language_of(request))


@router.post(
    "/api/v1/direct-uploads/{upload_id}/parts",
    summary="Learn where the next parts go",
    openapi_extra=may_fail_with(*_IN_PARTS),
)
async def ask_for_parts(
    request: Request, caller: SignedIn, upload_id: UploadId, body: WantedParts | None = None
) -> PartsToSend:
    """Only where the bucket takes files in parts. What is there is not sent again: ask after any trouble, and go on
    with what is missing.
    """
    parts: Parts = request.app.state.parts
    return parts_to_send(await next_parts(parts.direct, caller, str(upload_id), body.numbers if body else None))


@router.post(
    "/api/v1/direct-uploads/{upload_id}/complete",
    summary="Say that all parts are sent",
    responses={200: answer(examples.UPLOADING)},
    openapi_extra=may_fail_with(*_IN_PARTS, error_codes.DIRECT_PARTS_MISSING, error_codes.SIZE_MISMATCH),
)
async def complete_upload(request: Request, caller: SignedIn, upload_id: UploadId) -> DirectUpload:
    """They become one object, which is then read and compared with what was announced: ask for the upload until it is
    completed or has failed. Said twice, it ends the same.
    """
    parts: Parts = request.app.state.parts
    row = await complete(parts.direct, caller, str(upload_id))
    return direct_upload(row, language_of(request))
