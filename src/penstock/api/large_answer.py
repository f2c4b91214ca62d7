"""An answer that is handed over piece by piece, so that a client that does not read it costs one piece of memory.

The server copies what it is given and keeps it until the client has read it; of a large page that would be a megabyte
for each connection of anybody.
"""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_PIECE = 64 << 10


class LargeAnswer(Response):
    """A response whose bytes are kept in memory anyway."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  signature is ASGI's
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for start in range(0, max(len(body), 1), _PIECE):
            piece = bytes(body[start : start + _PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": start + _PIECE < len(body)})
