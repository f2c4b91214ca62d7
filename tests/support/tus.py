"""The tus protocol as a test speaks it: every header by hand, and below that the bare connection."""

import base64
import contextlib
import hashlib
import http.client
import json
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

CHUNK = "application/offset+octet-stream"
UPLOADS = "/api/v1/uploads"
Headers = Mapping[str, str | None] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """What came back; a header that is absent is None."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def __getitem__(self, name: str) -> str | None:
        return self.headers.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.headers

    @property
    def offset(self) -> int:
        return int(self.headers["Upload-Offset"])

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def code(self) -> str:
        return str(self.error["code"])

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and code together, for one comparison."""
        return self.status, self.code


class Tus:
    """One caller. Headers given as None are left out; `path` is what Location said."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.host, self.port = urlsplit(address).hostname or "", urlsplit(address).port or 80
        self.usual: dict[str, str | None] = {"Authorization": f"Bearer {token}", "Tus-Resumable": "1.0.0"}

    def ask(self, method: str, path: str = UPLOADS, headers: Headers = (), body: bytes = b"") -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        try:
            connection.putrequest(method, _path(path), skip_accept_encoding=True)
            given = self.with_usual(headers)
            if body or method in ("POST", "PATCH"):
                given.append(("Content-Length", str(len(body))))
            for name, value in given:
                connection.putheader(name, value.encode())
            connection.endheaders()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(body)  # where it is refused before it was all sent, the answer says why
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def with_usual(self, headers: Headers) -> list[tuple[str, str]]:
        if not isinstance(headers, Mapping):
            return [*self._present(self.usual), *headers]
        return self._present({**self.usual, **headers})

    def _present(self, headers: Mapping[str, str | None]) -> list[tuple[str, str]]:
        return [(name, value) for name, value in headers.items() if value is not None]

    def options(self, path: str = UPLOADS, **headers: str) -> Answer:
        return self.ask("OPTIONS", path, {"Authorization": None, "Tus-Resumable": None, **_named(headers)})

    def create(self, length: int | str | None = None, *, body: bytes = b"", **headers: str | None) -> Answer:
        """A PDF unless `upload_metadata` says otherwise."""
        given: dict[str, str | None] = {"Upload-Metadata": metadata(), **_named(headers)}
        if length is not None:
            given["Upload-Length"] = str(length)
        if body:
            given.setdefault("Content-Type", CHUNK)
        return self.ask("POST", UPLOADS, given, body)

    def created(self, length: int | None = None, **more: Any) -> str:
        """The path of a new upload."""
        if length is None and "final" not in (more.get("upload_concat") or ""):
            more["upload_defer_length"] = "1"
        answer = self.create(length, **more)
        assert answer.status == 201, (answer.status, answer.body)
        return _path(urljoin(self.address + UPLOADS, answer["Location"] or ""))

    def uploaded(self, content: bytes, **more: Any) -> str:
        """The path of a finished upload."""
        path = self.created(len(content), **more)
        answer = self.patch(path, 0, content)
        assert answer.status == 204, (answer.status, answer.body)
        return path

    def head(self, path: str, **headers: str | None) -> Answer:
        return self.ask("HEAD", path, _named(headers))

    def patch(self, path: str, offset: int | str, body: bytes = b"", **headers: str | None) -> Answer:
        return self.ask("PATCH", path, {"Upload-Offset": str(offset), "Content-Type": CHUNK, **_named(headers)}, body)

    def delete(self, path: str, **headers: str | None) -> Answer:
        return self.ask("DELETE", path, _named(headers))

    def wire(self) -> "Wire":
        return Wire(self)

    def begin_patch(self, path: str, offset: int, length: int, body: bytes = b"", **headers: str | None) -> "Wire":
        """A PATCH that announces `length` bytes of body and has sent `body` so far."""
        wire = self.wire()
        given = {"Upload-Offset": str(offset), "Content-Type": CHUNK, "Content-Length": str(length), **_named(headers)}
        wire.send_head("PATCH", path, given)
        wire.send(body)
        return wire

    def hold(self, path: str, length: int, body: bytes = b"", **headers: str | None) -> "Wire":
        """A PATCH at 0 that the server has begun to take: it gave leave to send the body."""
        wire = self.begin_patch(path, 0, length, expect="100-continue", **headers)
        assert b" 100 " in wire.line()
        assert wire.line() == b"\r\n"
        wire.send(body)
        return wire


class Wire:
    """One connection, byte by byte."""

    def __init__(self, caller: Tus) -> None:
        self._caller = caller
        self.socket = socket.create_connection((caller.host, caller.port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_head(self, method: str, path: str, headers: Headers = (), version: str = "1.1") -> None:
        given = [("Host", f"{self._caller.host}:{self._caller.port}"), *self._caller.with_usual(headers)]
        lines = [f"{method} {_path(path)} HTTP/{version}", *(f"{name}: {value}" for name, value in given), "", ""]
        self.send("\r\n".join(lines).encode())

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_chunk(self, data: bytes) -> None:
        """One piece of a chunked body; an empty one ends it."""
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def answer(self, method: str = "PATCH") -> Answer:
        reading = http.client.HTTPResponse(self.socket, method=method)
        try:
            reading.begin()
            return Answer(reading.status, reading.headers, reading.read())
        finally:
            reading.close()

    def line(self) -> bytes:
        """Up to the end of a line, without reading further."""
        found = b""
        while not found.endswith(b"\r\n") and (byte := self.socket.recv(1)):
            found += byte
        return found

    def is_over(self, seconds: float = 10) -> bool:
        """Whether the server ends the connection within that time (what it still says is thrown away)."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def no_more(self) -> None:
        """Close our half: nothing more will be sent, an answer can still be read."""
        with contextlib.suppress(OSError):  # the other side may have closed already
            self.socket.shutdown(socket.SHUT_WR)

    def drop(self) -> None:
        """As a cable pulled out does: a reset, no farewell."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def metadata(**values: str | bytes | None) -> str:
    """Upload-Metadata; without arguments that of an ordinary PDF."""
    pairs = values or {"filename": "report.pdf", "filetype": "application/pdf"}
    return ",".join(key if value is None else f"{key} {encoded(value)}" for key, value in pairs.items())


def encoded(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def checksum(body: bytes, algorithm: str = "sha1") -> str:
    return f"{algorithm} {encoded(hashlib.new(algorithm, body).digest())}"


def id_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _named(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """`upload_length` stands for Upload-Length."""
    return {name.replace("_", "-").title().replace("Http", "HTTP"): value for name, value in headers.items()}


def _path(address: str) -> str:
    return urlsplit(address).path or address
