"""Somebody's server that takes webhooks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Receiver:
    """Somebody's server: keeps what it got, answers what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        self.stall = False
        self.drips = False
        self.continues = False
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.calls.append((headers, body))
        if self.stall:
            await reader.read()
        elif self.drips:
            await self._drip(writer)
        elif self.continues:
            await self._continue(writer)
        else:
            location = "Location: http://127.0.0.1:9/\r\n" if self.status == 302 else ""
            writer.write(
                f"HTTP/1.1 {self.status} X\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
            )
            await writer.drain()
        writer.close()

    async def _continue(self, writer: asyncio.StreamWriter) -> None:
        """It says without end that the client may go on."""
        with suppress(OSError):
            while not writer.is_closing():
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000)
                await writer.drain()

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        """An answer that never ends, a letter at a time."""
        writer.write(b"HTTP/1.1 200 X\r\nSlow: ")
        with suppress(OSError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.1)


@asynccontextmanager
async def running_receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    yield made
    server.close()
