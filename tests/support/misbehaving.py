"""A source that answers as a test wants it to, byte by byte: torn, slow, packed, lying about lengths."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Asked:
    """One request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


def said(status: int = 200, body: Any = b"", **headers: str) -> bytes:
    """A whole answer; `retry_after="3"` is the header Retry-After."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {"content-length": str(len(raw)), "content-type": "application/json"}
    names |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in names.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


Says = Callable[[Asked, asyncio.StreamWriter], Awaitable[bytes | None]]  # None: it has written, and hangs up


@dataclass
class Misbehaving:
    """Answers from `script` in order, the last one for ever; an entry is bytes, or a function that gets the writer."""

    script: list[bytes | Says] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    open_now: int = 0
    most_open: int = 0
    port: int = 0
    scheme: str = "http"

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (asked := await _request(reader)) is not None:
                self.asked.append(asked)
                self.open_now += 1
                self.most_open = max(self.most_open, self.open_now)
                says = self.script[min(len(self.asked), len(self.script)) - 1]
                try:
                    answer = says if isinstance(says, bytes) else await says(asked, writer)
                finally:
                    self.open_now -= 1
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Asked(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


@asynccontextmanager
async def misbehaving(*script: bytes | Says, tls: ssl.SSLContext | None = None) -> AsyncIterator[Misbehaving]:
    source = Misbehaving(list(script), scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(source.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    source.port = server.sockets[0].getsockname()[1]
    try:
        yield source
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
