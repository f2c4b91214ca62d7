"""Servers that webhooks are sent to: one that answers, and one that takes calls and never answers."""

import asyncio
from typing import Self


class Receiver:
    """Listens on loopback; every call is answered, or none."""

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers
        self._calls: list[bytes] = []
        self._called = asyncio.Condition()
        self.open = 0
        self.total = 0

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self._port}/{name}"

    async def until_told(self, text: str) -> None:
        """Until a call has come whose body has this text."""
        wanted = text.encode()
        async with self._called:
            await self._called.wait_for(lambda: any(wanted in body for body in self._calls))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.lower().split(b"\r\n")
                length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
                body = await reader.readexactly(length)
                self.total += 1
                if not self._answers:
                    await reader.read()  # until the caller gives up
                    return
                async with self._called:
                    self._calls.append(body)
                    self._called.notify_all()
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.open -= 1
            writer.close()
