"""Frames between us and one worker: four bytes of length, then a body.

The other end may be hostile: a frame longer than expected is refused before it is read, and descriptors
that it sends are dropped by the kernel, as we never ask for any.
"""

import asyncio
import socket
from collections.abc import Sequence

_HEADER = 4


class ChannelClosed(Exception):
    """The worker is gone, or has closed its end."""


class FrameTooLarge(Exception):
    """The worker announces more than it may send."""


class Channel:
    """Our end of the socket pair."""

    def __init__(self, own: socket.socket) -> None:
        own.setblocking(False)
        self._socket = own

    async def send(self, body: bytes, descriptors: Sequence[int] = ()) -> None:
        """The descriptors travel with the first bytes and arrive open in the worker."""
        frame = len(body).to_bytes(_HEADER, "big") + body
        loop = asyncio.get_running_loop()
        try:
            # Between calls the line is empty, so this takes at least one byte at once.
            sent = socket.send_fds(self._socket, [frame], descriptors) if descriptors else 0
            await loop.sock_sendall(self._socket, frame[sent:])
        except OSError as failure:
            raise ChannelClosed from failure

    async def receive(self, most: int) -> memoryview:
        """The body of the next frame, of at most so many bytes, without another copy of it."""
        frame = bytearray(await self._some(1 << 16))
        while len(frame) < _HEADER:
            frame += await self._some(1 << 16)
        length = _HEADER + int.from_bytes(frame[:_HEADER], "big")
        if length > most + _HEADER:
            raise FrameTooLarge
        begun = len(frame)
        frame += bytes(max(0, length - begun))
        await self._fill(memoryview(frame)[begun:])
        return memoryview(frame)[_HEADER:]  # bytes beyond the frame make it too long to decode: garbled

    async def _fill(self, rest: memoryview) -> None:
        loop = asyncio.get_running_loop()
        while rest:
            try:
                got = await loop.sock_recv_into(self._socket, rest)
            except OSError as failure:
                raise ChannelClosed from failure
            if not got:
                raise ChannelClosed
            rest = rest[got:]

    async def _some(self, most: int) -> bytes:
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, most)
        except OSError as failure:
            raise ChannelClosed from failure
        if not data:
            raise ChannelClosed
        return data

    def is_quiet(self) -> bool:
        """Open, and nothing is waiting to be read: what a worker between calls looks like."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        self._socket.close()
