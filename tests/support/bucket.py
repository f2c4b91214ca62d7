"""The embedded bucket for tests: in a thread beside them, or as a process that can be killed; and who it tells."""

import asyncio
import base64
import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from google.cloud import storage
from google.oauth2 import service_account

from penstock.embedded.bucket.faults import Faults
from penstock.embedded.bucket.keys import ACCOUNT_FILE
from penstock.embedded.bucket.server import BucketServer
from penstock.embedded.bucket.settings import BucketSettings
from penstock.kernel.clock import Clock
from penstock.kernel.runtime import RuntimeSettings
from tests.support.edge import free_port
from tests.support.programs import environment

NAME = "penstock-uploads"
QUANTUM = 256 * 1024


class BucketClient:
    """What phones and the server do with a bucket, by plain HTTP and by the official signer."""

    def __init__(self, address: str, directory: Path) -> None:
        self.address = address
        self.directory = directory
        self.http = httpx.Client(timeout=20, trust_env=False)

    @property
    def account(self) -> service_account.Credentials:
        return service_account.Credentials.from_service_account_file(str(self.directory / ACCOUNT_FILE))

    def official(self) -> storage.Client:
        return storage.Client(
            project="penstock", credentials=self.account, client_options={"api_endpoint": self.address}
        )

    def signed(self, name: str, headers: dict[str, str] | None = None, **more: Any) -> str:
        blob = self.official().bucket(NAME).blob(name)
        more = {"expiration": timedelta(minutes=15), "method": "RESUMABLE", **more}
        return blob.generate_signed_url(version="v4", headers=dict(headers or {}), **more)

    def begin(
        self, name: str, *, generation_match: str | None = "0", content_type: str = "video/mp4",
        most: int | None = None,
    ) -> str:  # fmt: skip
        """A session, as a phone begins one; for `most` bytes, if the signer says so."""
        headers = {"content-type": content_type}
        if most is not None:
            headers["x-goog-content-length-range"] = f"0,{most}"
        if generation_match is not None:
            headers["x-goog-if-generation-match"] = generation_match
        return self.begin_at(self.signed(name, headers), headers)

    def begin_at(self, signed: str, headers: dict[str, str] | None = None) -> str:
        answer = self.http.post(signed, headers={**(headers or {}), "x-goog-resumable": "start"})
        assert answer.status_code == 201, answer.text
        return answer.headers["location"]

    def put(self, session: str, body: bytes = b"", content_range: str | None = None) -> httpx.Response:
        headers = {} if content_range is None else {"content-range": content_range}
        return self.http.put(session, content=body, headers=headers)

    def asked(self, session: str, total: int | str = "*") -> httpx.Response:
        return self.put(session, b"", f"bytes */{total}")

    def send(self, name: str, content: bytes) -> httpx.Response:
        return self.put(self.begin(name), content)

    def trickle(self, method: str, target: str, *headers: str) -> socket.socket:
        """A request whose chunked body does not end; the caller sends what it likes."""
        parts = urlsplit(self.address)
        connection = socket.create_connection((str(parts.hostname), parts.port or 80), timeout=20)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Transfer-Encoding: chunked", *headers]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return connection

    def token(self) -> str:
        from google.auth.transport.requests import Request

        account = self.account.with_scopes(["https://www.googleapis.com/auth/devstorage.read_write"])
        account.refresh(Request())
        return str(account.token)

    def api(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token()}", **more.pop("headers", {})}
        return self.http.request(method, f"{self.address}{path}", headers=headers, **more)


class BucketThread(BucketClient):
    """In this process, with an event loop of its own."""

    def __init__(self, home: Path, *, clock: Clock | None = None, port: int = 0, **settings: Any) -> None:
        runtime = RuntimeSettings(home=home, bucket_port=port or free_port(), shutdown_seconds=timedelta(seconds=2))
        self.faults = Faults()
        self._server = BucketServer(BucketSettings(**settings), runtime, clock=clock, faults=self.faults)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failure: BaseException | None = None
        super().__init__(self._server.address, home / "bucket")

    def __enter__(self) -> Self:
        self._threads_before = foreign_threads()
        self._thread.start()
        until(lambda: self._answers() or self.failure, "the bucket answers")
        if self.failure:
            raise self.failure
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._let_threads_end()

    def _let_threads_end(self) -> None:
        """Threads that Python did not start may hold something of it, and must not while it ends. Idle ones stay."""
        deadline = time.monotonic() + 0.3
        while not foreign_threads() <= self._threads_before and time.monotonic() < deadline:
            time.sleep(0.01)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._server.run(self._stop))
        except BaseException as failure:  # noqa: BLE001  told to whoever waits
            self.failure = failure
        finally:
            self._loop.close()

    def _answers(self) -> bool:
        return answers(self.http, self.address)


class BucketProcess(BucketClient):
    """A process that can be killed; `whole`: `penstock bucket`, which takes longer to start."""

    def __init__(self, home: Path, *, port: int = 0, whole: bool = False, **extra: str) -> None:
        self.port = port or free_port()
        self._home = home
        self._extra = extra
        self._module, self._begin = ("penstock", ["bucket"]) if whole else ("tests.support.bucket_program", [])
        super().__init__(f"http://127.0.0.1:{self.port}", home / "bucket")
        self.log = home / "log.txt"

    def start(self, **more: str) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        given = environment(PENSTOCK_HOME=str(self._home), **self._extra, **more)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self._module, *self._begin, "--port", str(self.port)],
                env=given, stdout=log, stderr=log,
            )  # fmt: skip
        until(lambda: answers(self.http, self.address) or self.process.poll() is not None, "the bucket answers")
        assert self.process.poll() is None, self.log.read_text()
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def died(self) -> bool:
        """By a failpoint's SIGKILL."""
        return self.process.wait(20) == -signal.SIGKILL

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(20)

    def close(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.kill()


@dataclass
class Listener:
    """Who is told: keeps what came, and answers as a test wants."""

    answers: list[int] = field(default_factory=list)  # for the next ones; then 204
    heard: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    url: str = ""

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(base64.b64decode(each["message"]["data"])) for each in self.heard]

    def names(self) -> list[str]:
        return [each["name"] for each in self.objects()]

    def clear(self) -> None:
        self.answers.clear()
        self.heard.clear()
        self.tokens.clear()


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    listener = Listener()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = listener.answers.pop(0) if listener.answers else 204
            listener.tokens.append(self.headers["authorization"].removeprefix("Bearer "))
            listener.heard.append(json.loads(body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    listener.url = f"http://127.0.0.1:{server.server_port}/_/gcs/callback"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answers(client: httpx.Client, address: str) -> bool:
    try:
        return client.get(f"{address}/health/live").status_code == 200
    except httpx.TransportError:
        return False


def until(true: Callable[[], Any], what: str, *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)


def foreign_threads() -> set[int]:
    """Those that Python did not start."""
    ours = {thread.native_id for thread in threading.enumerate()}
    return {int(task.name) for task in Path("/proc/self/task").glob("*")} - ours


def some_bytes(length: int) -> bytes:
    return os.urandom(length)
