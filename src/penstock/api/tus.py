"""The tus protocol over HTTP: headers in, headers out. What happens is in `penstock.uploads.tus`.

These routes read their bodies themselves, as they come: below FastAPI, whose handlers would gather them first. They
are in its list of routes all the same, for the table of who may call what and for the description of the API.
Everything that can be refused is refused before the first byte of a body is asked for; a client that sends
`Expect: 100-continue` then never sends it.
"""

from collections.abc import Mapping
from email.utils import format_datetime

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.api.errors import response_of
from penstock.api.guard import GuardedRoute, admitted
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.uploads import tus

ADDRESS = "/api/v1/uploads"
DISCOVERY = {
    "Tus-Version": tus.VERSION,
    "Tus-Extension": ",".join(tus.EXTENSIONS),
    "Tus-Checksum-Algorithm": ",".join(tus.ALGORITHMS),
}


class TusRoute(GuardedRoute):
    """Answers every request, refusals too, with the version it speaks."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):  # the address is ours, the verb is not: 405
            await super().handle(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            request.state.caller = await admitted(request, self.path)  # first: what is refused later counts as well
            if request.method != "OPTIONS":
                _check_version(request)
            response: Response = await self.endpoint(request)
        except PenstockError as refusal:
            response = _refused(request, refusal)
        except tus.ClientGone:
            raise ClientDisconnect from None
        response.headers["Tus-Resumable"] = tus.VERSION
        await response(scope, receive, send)


def _check_version(request: Request) -> None:
    spoken = header(request, "Tus-Resumable")
    if spoken != tus.VERSION:
        raise PenstockError(error_codes.TUS_VERSION_UNSUPPORTED, sent=(spoken or "")[:50], supported=tus.VERSION)


def _refused(request: Request, refusal: PenstockError) -> Response:
    response = response_of(request, refusal.code, refusal.details)
    if refusal.code is error_codes.TUS_VERSION_UNSUPPORTED:
        response.headers["Tus-Version"] = tus.VERSION
    if refusal.code is error_codes.OFFSET_MISMATCH:
        response.headers["Upload-Offset"] = str(refusal.details["offset"])
    if request.method == "HEAD":  # the only place left to say why
        response.headers["X-Error-Code"] = refusal.code.code
        return Response(status_code=response.status_code, headers=_without_body(response.headers))
    return response


def _without_body(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in ("content-length", "content-type")}


def header(request: Request, name: str) -> str | None:
    """A header that may be there once; twice would leave open which one counts."""
    found = request.headers.getlist(name)
    if len(found) > 1:
        raise tus.invalid(name, "was sent more than once")
    return found[0].strip() if found else None


def body_of(request: Request) -> tus.Body:
    """The body piece by piece, as the connection gives it."""
    over = False

    async def next_piece() -> bytes | None:
        nonlocal over
        if over:
            return None
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise tus.ClientGone
        over = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece

    return next_piece


def body_size(request: Request) -> int | None:
    """What Content-Length announces; None when the body is sent in pieces of unknown number."""
    return tus.whole_number("Content-Length", header(request, "Content-Length"))


def has_body(request: Request) -> bool:
    return "transfer-encoding" in request.headers or bool(body_size(request))


def check_content_type(request: Request) -> None:
    if (header(request, "Content-Type") or "").lower() != tus.CONTENT_TYPE:
        raise PenstockError(error_codes.CONTENT_TYPE_INVALID, accepted=[tus.CONTENT_TYPE])


def progress_headers(upload: tus.Upload) -> dict[str, str]:
    """Where an upload stands; an unfinished one will not be kept for ever."""
    headers = {"Upload-Offset": str(upload.received), "Cache-Control": "no-store"}
    if upload.status is tus.UploadStatus.UPLOADING:
        headers["Upload-Expires"] = format_datetime(upload.expires_at, usegmt=True)
    return headers


def description_headers(upload: tus.Upload) -> dict[str, str]:
    """What the client said of it."""
    headers = {"Upload-Length": str(upload.length)} if upload.length is not None else {"Upload-Defer-Length": "1"}
    if upload.metadata:
        headers["Upload-Metadata"] = upload.metadata
    if upload.concat:
        headers["Upload-Concat"] = upload.concat
    return headers
