"""Pages of other origins may call the API with a token of their own; cookies are never accepted from them."""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.api.tus import DISCOVERY

_METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
_MAY_SEND = (
    "Authorization", "Content-Type", "Accept-Language", "Idempotency-Key", "Last-Event-ID", "X-Request-Id",
    "X-HTTP-Method-Override", "X-Requested-With", "Tus-Resumable", "Upload-Length", "Upload-Defer-Length",
    "Upload-Offset", "Upload-Metadata", "Upload-Checksum", "Upload-Concat",
)  # fmt: skip
_MAY_READ = (
    "Location", "Retry-After", "X-Request-Id", "X-Error-Code", "ETag", "Tus-Resumable", "Tus-Max-Size", *DISCOVERY,
    "Upload-Length", "Upload-Defer-Length", "Upload-Offset", "Upload-Metadata", "Upload-Expires", "Upload-Concat",
)  # fmt: skip
_DAY = 86_400


class CrossOrigin:
    """Only for the API: what watches us and the pages are for our own origin."""

    def __init__(self, app: ASGIApp, origins: str) -> None:
        self._app = app
        allowed = [origin.strip() for origin in origins.split(",") if origin.strip()]
        self._shared = CORSMiddleware(
            app, allow_origins=allowed, allow_methods=_METHODS, allow_headers=_MAY_SEND, expose_headers=_MAY_READ,
            max_age=_DAY,
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = scope["type"] == "http" and scope["path"].startswith("/api/")
        await (self._shared if shared else self._app)(scope, receive, send)
