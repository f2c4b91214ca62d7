"""Resumable uploads: the five verbs of tus."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.api.examples import UPLOAD_ID
from penstock.api.openapi import may_fail_with
from penstock.api.tus import (
    ADDRESS,
    DISCOVERY,
    TusRoute,
    body_of,
    body_size,
    check_content_type,
    description_headers,
    has_body,
    header,
    progress_headers,
)
from penstock.bootstrap import Parts
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.uploads import tus

router = APIRouter(route_class=TusRoute, tags=["uploads"], default_response_class=Response)


def _parameter(name: str, example: str, about: str, *, required: bool = False) -> dict[str, Any]:
    return {"in": "header", "name": name, "required": required, "description": about, "schema": {"type": "string"},
            "example": example}  # fmt: skip


_ID = {"in": "path", "name": "upload_id", "required": True,
       "description": "The last part of the `Location` that the upload got",
       "schema": {"type": "string", "pattern": f"^{tus.UPLOAD_ID.pattern}$"}, "example": UPLOAD_ID}  # fmt: skip
_SPOKEN = _parameter("Tus-Resumable", "1.0.0", "The version of the protocol", required=True)
_LENGTH = _parameter("Upload-Length", "1048576", "Bytes of the whole file")
_CHECKSUM = _parameter("Upload-Checksum", "sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=", "Of this body: sha1 or sha256, base64")
_BODY = {"content": {tus.CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
_METADATA = "filename c3ByaW5nLWNhdGFsb2d1ZS5wZGY=,filetype YXBwbGljYXRpb24vcGRm"
_ALWAYS = (error_codes.TUS_VERSION_UNSUPPORTED, error_codes.UPLOAD_HEADER_INVALID)
_ONE = (*_ALWAYS, error_codes.UPLOAD_NOT_FOUND, error_codes.UPLOAD_GONE)
_WRITING = (
    error_codes.CONTENT_TYPE_INVALID, error_codes.CHECKSUM_FAILED, error_codes.CHECKSUM_UNSUPPORTED,
    error_codes.UPLOAD_LENGTH_EXCEEDED, error_codes.FILE_SIZE_EXCEEDED, error_codes.DISK_FULL,
    error_codes.STORE_UNAVAILABLE, error_codes.UPLOAD_STALLED, error_codes.UPLOAD_LOCKED,
)  # fmt: skip


def _answer(about: str, **headers: str) -> dict[str, Any]:
    return {"description": about, "headers": {name.replace("_", "-"): {"schema": {"type": "string"}, "example": value}
                                              for name, value in headers.items()}}  # fmt: skip


_DISCOVERED = _answer("The protocol and its extensions", Tus_Version="1.0.0", Tus_Max_Size="17179869184")


@router.options(
    f"{ADDRESS}/{{upload_id}}",
    summary="What this server can do with an upload",
    status_code=204,
    responses={204: _DISCOVERED},
    openapi_extra={"parameters": [_ID]},
)
@router.options(ADDRESS, summary="What this server can do", status_code=204, responses={204: _DISCOVERED})
async def discover(request: Request) -> Response:
    """Answers without a token: clients ask before they know whom to ask for one."""
    return Response(status_code=204, headers={**DISCOVERY, "Tus-Max-Size": str(_uploads(request).settings.largest)})


@router.post(
    ADDRESS,
    summary="Begin an upload",
    status_code=201,
    responses={201: _answer("Created", Location=f"{ADDRESS}/{UPLOAD_ID}", Upload_Offset="0")},
    openapi_extra={
        "parameters": [
            _SPOKEN, _LENGTH, _CHECKSUM,
            _parameter("Upload-Defer-Length", "1", "Instead of Upload-Length: it will be said later"),
            _parameter("Upload-Metadata", _METADATA, "Pairs of a key and base64; `filename` must end in .pdf"),
            _parameter("Upload-Concat", "partial", "`partial`, or `final;` and the addresses of the parts"),
        ],
        "requestBody": {"required": False, **_BODY},
        **may_fail_with(
            *_ALWAYS, *_WRITING, error_codes.INVALID_FILE_TYPE, error_codes.UPLOAD_CONCAT_INVALID,
            error_codes.UPLOAD_SLOTS_FULL,
        ),
    },
)  # fmt: skip
async def create_upload(request: Request) -> Response:
    """`Location` takes the bytes; a body of type `application/offset+octet-stream` is the first of them."""
    caller, uploads = _caller(request), _uploads(request)
    wish, chunk = _wish(request), None
    if has_body(request):
        check_content_type(request)
        chunk = tus.Chunk(0, body_size(request), checksum=tus.parse_checksum(header(request, "Upload-Checksum")))
        if wish.length is not None and (chunk.size or 0) > wish.length:
            raise PenstockError(error_codes.UPLOAD_LENGTH_EXCEEDED, length=wish.length)
    upload = await uploads.create(caller, wish)
    if chunk is not None:
        try:
            upload = await uploads.append(upload.upload_id, caller.merchant_id, chunk, body_of(request))
        except (PenstockError, tus.ClientGone):  # the client never learns its address, so nobody could go on with it
            await uploads.cancel(upload.upload_id, caller)
            raise
    location = f"{uploads.settings.tus_public_url.rstrip('/')}{ADDRESS}/{upload.upload_id}"
    return Response(status_code=201, headers={"Location": location, **progress_headers(upload)})


def _wish(request: Request) -> tus.Wish:
    concat = header(request, "Upload-Concat")
    if concat is not None and concat.startswith("final"):
        if header(request, "Upload-Length") is not None or has_body(request):
            raise tus.invalid("Upload-Concat", "a final upload has neither a length of its own nor a body")
        length = None
    else:
        length = tus.parse_length(header(request, "Upload-Length"), header(request, "Upload-Defer-Length"))
    return tus.Wish(length, header(request, "Upload-Metadata") or "", concat)


@router.head(
    f"{ADDRESS}/{{upload_id}}",
    summary="How far an upload has come",
    responses={200: _answer("Go on from here", Upload_Offset="524288", Upload_Length="1048576")},
    openapi_extra={"parameters": [_ID, _SPOKEN], **may_fail_with(*_ONE)},
)
async def ask_offset(request: Request) -> Response:
    """Every byte before the offset is on disk. An old connection that still hangs is taken over."""
    upload = await _uploads(request).offset(_upload_id(request), _caller(request).merchant_id)
    return Response(headers={**progress_headers(upload), **description_headers(upload)})


@router.patch(
    f"{ADDRESS}/{{upload_id}}",
    summary="Send bytes",
    status_code=204,
    responses={204: _answer("On disk and counted", Upload_Offset="1048576")},
    openapi_extra={
        "parameters": [
            _ID, _SPOKEN, _parameter("Upload-Offset", "524288", "Where these bytes begin", required=True), _CHECKSUM,
            _parameter("Upload-Length", "1048576", "Of an upload that began without"),
        ],
        "requestBody": {"required": True, **_BODY},
        **may_fail_with(
            *_ONE, *_WRITING, error_codes.OFFSET_MISMATCH, error_codes.UPLOAD_FINAL, error_codes.UPLOAD_SLOTS_FULL
        ),
    },
)  # fmt: skip
async def append_bytes(request: Request) -> Response:
    """If the connection breaks, what arrived is kept (unless a checksum was sent): ask with HEAD and go on."""
    check_content_type(request)
    offset = tus.whole_number("Upload-Offset", header(request, "Upload-Offset"))
    if offset is None:
        raise tus.invalid("Upload-Offset", "is missing")
    chunk = tus.Chunk(
        offset,
        body_size(request),
        tus.whole_number("Upload-Length", header(request, "Upload-Length")),
        tus.parse_checksum(header(request, "Upload-Checksum")),
    )
    upload_id, merchant = _upload_id(request), _caller(request).merchant_id
    upload = await _uploads(request).append(upload_id, merchant, chunk, body_of(request))
    return Response(status_code=204, headers=progress_headers(upload))


@router.delete(
    f"{ADDRESS}/{{upload_id}}",
    summary="Cancel an upload",
    status_code=204,
    responses={204: {"description": "Its bytes are gone"}},
    openapi_extra={
        "parameters": [_ID, _SPOKEN],
        **may_fail_with(*_ONE, error_codes.UPLOAD_ADMITTED, error_codes.STATE_CHANGED),
    },
)
async def cancel_upload(request: Request) -> Response:
    """An upload that has become a job cannot be cancelled any more; the job can."""
    await _uploads(request).cancel(_upload_id(request), _caller(request))
    return Response(status_code=204)


def _upload_id(request: Request) -> str:
    """A name that is none of ours never gets as far as the disk or the database."""
    name: str = request.path_params["upload_id"]
    if not tus.UPLOAD_ID.fullmatch(name):
        raise PenstockError(error_codes.UPLOAD_NOT_FOUND, upload_id=name[:50])
    return name


def _uploads(request: Request) -> tus.Uploads:
    parts: Parts = request.app.state.parts
    return parts.uploads


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller
