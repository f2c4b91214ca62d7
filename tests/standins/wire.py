"""HTTP/1.1 with keep-alive on bare asyncio, so that the server is never what is measured.

One request at a time on each connection; bodies need a Content-Length. Answers are made by a plain function.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

JSON = "application/json"
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
MAX_HEAD = 64 * 1024


@dataclass(slots=True)
class Request:
    method: str
    path: str
    raw_query: str
    headers: dict[str, str]
    body: bytes
    peer: str
    target: str = ""  # as it was sent

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.raw_query, keep_blank_values=True))

    @property
    def form(self) -> dict[str, str]:
        """Fields of the query and of a form in the body together, as CGI programs read them."""
        fields = self.query
        if self.method == "POST" and "form-urlencoded" in self.headers.get("content-type", ""):
            fields.update(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))
        return fields

    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass(slots=True)
class Response:
    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    page_key: str | None = None
    delay: float = 0.0  # before the first byte
    spread: float = 0.0  # seconds over which the body dribbles out
    cut: bool = False  # the connection ends in the middle of the body

    def encoded_head(self, keep: bool) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {_phrase(self.status)}", f"Content-Type: {self.content_type}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if "Date" not in self.headers:
            lines.append(f"Date: {formatdate(usegmt=True)}")
        lines += [f"Content-Length: {len(self.body)}", f"Connection: {'keep-alive' if keep else 'close'}", "", ""]
        return "\r\n".join(lines).encode("latin-1")


def as_json(value: Any, status: int = 200, **headers: str) -> Response:
    return Response(status, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), headers=headers)


def as_text(text: str, status: int = 200, content_type: str = TEXT) -> Response:
    return Response(status, text.encode(), content_type)


Answer = Callable[[Request], Response]
Left = Callable[[Response | None], None]


class Connection(asyncio.Protocol):
    """`left` is told when the last byte of an answer was handed over, or that the other side went away before."""

    def __init__(self, answer: Answer, left: Left, alive: set["Connection"]) -> None:
        self._answer, self._left, self._alive = answer, left, alive
        self._buffer = bytearray()
        self._response: Response | None = None
        self._keep = True
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        self._alive.add(self)

    def connection_lost(self, failure: Exception | None) -> None:
        self._alive.discard(self)
        if self._later:
            self._later.cancel()
        if self._response is not None:
            self._response = None
            self._left(None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._response is None:
            self._take()

    def _take(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                self.transport.abort()
            return
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        method, target, _ = first.split(" ", 2)
        parts = urlsplit(target)
        self._keep = headers.get("connection", "").lower() != "close"
        request = Request(method, unquote(parts.path), parts.query, headers, body, self._peer, target)
        self._begin(self._answer(request))

    def _begin(self, response: Response) -> None:
        self._response = response
        if response.delay:
            self._later = self._loop.call_later(response.delay, self._send, response)
        else:
            self._send(response)

    def _send(self, response: Response) -> None:
        head = response.encoded_head(self._keep)
        if response.cut:
            self.transport.write(head + response.body[: len(response.body) // 2])
            self._later = self._loop.call_later(0, self.transport.abort)
        elif response.spread and len(response.body) > 1:
            self.transport.write(head)
            self._dribble(response, 0)
        else:
            self.transport.write(head + response.body)
            self._done(response)

    def _dribble(self, response: Response, start: int) -> None:
        step = -(-len(response.body) // 5)
        self.transport.write(response.body[start : start + step])
        if start + step >= len(response.body):
            self._done(response)
        else:
            self._later = self._loop.call_later(response.spread / 5, self._dribble, response, start + step)

    def _done(self, response: Response) -> None:
        self._response = None
        self._left(response)
        if not self._keep:
            self.transport.close()
        elif self._buffer:
            self._take()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
