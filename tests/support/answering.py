"""A server that says what a test wants it to, and remembers what it was asked: for trouble no good server makes."""

import http.server
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Said:
    """One answer; `body` may be JSON or bytes. `cut` closes the connection with more announced than sent."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


Answer = Callable[[Asked], Said]


class Answering:
    """On this machine, at `address`."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Asked] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler(answer))
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self, answer: Answer) -> type[http.server.BaseHTTPRequestHandler]:
        asked = self.asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                length = int(self.headers.get("content-length", 0))
                names = {name.lower(): value for name, value in self.headers.items()}
                asked.append(Asked(self.command, self.path, names, self.rfile.read(length)))
                said = answer(asked[-1])
                body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body) + 1000 * said.cut))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_HEAD = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        return Handler
