"""multipart/related of two parts, as clients send small objects: a description in JSON, then the bytes, streamed."""

import re

from penstock.embedded.bucket.body import Body
from penstock.embedded.bucket.refusals import malformed

_BOUNDARY = re.compile(
    r"""multipart/related\s*;.*?boundary=(?:"([^"]{1,200})"|'([^']{1,200})'|([^\s;"']{1,200}))""", re.IGNORECASE
)
_LONGEST_DESCRIPTION = 64 * 1024


class TwoParts:
    """Read `description` first, then `next_piece` until it is empty."""

    def __init__(self, body: Body, content_type: str) -> None:
        found = _BOUNDARY.match(content_type)
        if found is None:
            raise malformed("The body should be multipart/related with a boundary.")
        boundary = next(group for group in found.groups() if group)
        self._mark = b"--" + boundary.encode("latin-1")
        self._end = b"\r\n" + self._mark
        self._body = body
        self._held = bytearray()
        self._is_over = False
        self.media_type: str | None = None

    async def description(self) -> bytes:
        """The first part; its headers say nothing that we need."""
        part = await self._up_to(self._end)
        begin = part.find(self._mark)
        _, found, description = bytes(part[begin:]).partition(b"\r\n\r\n")
        if begin < 0 or not found:
            raise malformed("The first part cannot be read.")
        headers = bytes(await self._up_to(b"\r\n\r\n")).decode("latin-1")
        for line in headers.splitlines():
            name, _, value = line.partition(":")
            if name.strip().lower() == "content-type":
                self.media_type = value.strip()
        return description

    async def next_piece(self) -> bytes:
        """Of the second part; empty at its end. As much is held back as could be the beginning of the mark."""
        while not self._is_over:
            at = self._held.find(self._end)
            if at >= 0:
                self._is_over = True
                return bytes(self._held[:at])
            ready = len(self._held) - len(self._end) + 1
            if ready > 0:
                piece = bytes(self._held[:ready])
                del self._held[:ready]
                return piece
            await self._more()
        return b""

    async def _up_to(self, mark: bytes) -> bytearray:
        while (at := self._held.find(mark)) < 0:
            if len(self._held) > _LONGEST_DESCRIPTION:
                raise malformed("The first part is too long.")
            await self._more()
        part = self._held[:at]
        del self._held[: at + len(mark)]
        return part

    async def _more(self) -> None:
        piece = await self._body.next()
        if not piece:
            raise malformed("The body ends too early.")
        self._held += piece
