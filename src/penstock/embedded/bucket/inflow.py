"""Bytes of one request on their way from its body into a data file."""

from collections.abc import Awaitable, Callable

from penstock.embedded.bucket.datafile import DataFile
from penstock.embedded.bucket.faults import Faults
from penstock.embedded.bucket.ranges import QUANTUM, Arriving
from penstock.embedded.bucket.refusals import malformed, too_large, try_again
from penstock.embedded.bucket.threads import in_thread

_KEEP_AT = 1024 * 1024


class Inflow:
    """The bytes of one request on their way into the file, whole quanta at a time."""

    def __init__(
        self, file: DataFile, arriving: Arriving, faults: Faults, *, most: int, hold: Callable[[], Awaitable[None]]
    ) -> None:
        """`hold` is waited for before anything is written: it returns when there may be bytes on disk, or refuses."""
        self._file = file
        self._skip = file.size - arriving.start  # sent before, and here already
        self._arriving = arriving
        self._faults = faults
        self._most = most
        self._hold = hold
        self._waiting = bytearray()
        self.received = 0

    async def add(self, piece: bytes) -> None:
        self.received += len(piece)
        length = self._arriving.length
        if length is not None and self.received > length:
            raise malformed("More bytes came than Content-Range says.")
        if self._faults.breaks_off(self.received):
            raise try_again("A fault that was ordered.")
        dropped = min(self._skip, len(piece))
        self._skip -= dropped
        if self._file.size + len(self._waiting) + len(piece) - dropped > self._most:
            raise too_large(self._most)
        self._waiting += memoryview(piece)[dropped:]
        if len(self._waiting) >= _KEEP_AT:
            await self.keep()

    async def keep(self, *, everything: bool = False) -> None:
        length = len(self._waiting) if everything else len(self._waiting) // QUANTUM * QUANTUM
        if length:
            piece = bytes(memoryview(self._waiting)[:length])
            del self._waiting[:length]
            await self._hold()
            await in_thread(self._file.append, piece)
