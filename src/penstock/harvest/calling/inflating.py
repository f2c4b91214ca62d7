"""Bodies as they come over the wire, unpacked piece by piece and never beyond a limit.

Invariant: no more than the limit is ever in memory, however small the packed form is; a stream that ends before its
end mark is an error, not a short body.
"""

import zlib
from typing import Literal

_PIECE = 65_536
_GZIP, _ZLIB, _RAW = 31, 15, -15

Trouble = Literal["TOO_LARGE", "TRUNCATED", "UNREADABLE", "UNKNOWN_ENCODING"]


class BodyTrouble(Exception):
    """Why a body is not to be used."""

    def __init__(self, kind: Trouble) -> None:
        super().__init__(kind)
        self.kind: Trouble = kind


class Body:
    """Collects one body. `encoding` is the Content-Encoding of the answer."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._name = encoding.strip().lower()
        if self._name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise BodyTrouble("UNKNOWN_ENCODING")
        self._is_packed = self._name not in {"", "identity"}
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._unpacking = zlib.decompressobj(_GZIP if "gzip" in self._name else _ZLIB) if self._is_packed else None
        self._has_begun = False

    def feed(self, piece: bytes) -> None:
        if self._unpacking is None:
            self._keep(piece)
            return
        try:
            self._unpack(piece)
        except zlib.error:
            raise BodyTrouble("UNREADABLE") from None

    def whole(self) -> bytes:
        if self._unpacking is not None and self._has_begun and not self._unpacking.eof:
            raise BodyTrouble("TRUNCATED")
        return b"".join(self._parts)

    def _unpack(self, piece: bytes) -> None:
        while piece:
            unpacking = self._next_stream()
            try:
                found = unpacking.decompress(piece, _PIECE)
            except zlib.error:
                if self._name != "deflate" or self._has_begun:
                    raise
                unpacking = self._unpacking = zlib.decompressobj(_RAW)  # some mean this by deflate
                found = unpacking.decompress(piece, _PIECE)
            self._has_begun = True
            self._keep(found)
            piece = unpacking.unused_data if unpacking.eof else unpacking.unconsumed_tail
            if unpacking.eof and "gzip" not in self._name:
                return

    def _next_stream(self) -> "zlib._Decompress":
        """Gzip may be several streams, one after the other."""
        if self._unpacking is None or self._unpacking.eof:
            self._unpacking = zlib.decompressobj(_GZIP)
        return self._unpacking

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise BodyTrouble("TOO_LARGE")
        self._parts.append(piece)
