"""Somebody at the API of a server process, in a language of their own."""

import http.client
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from tests.support.gateway import Gateway
from tests.support.tus import Answer, Headers, Tus, id_of

JOBS = "/api/v1/jobs"


class Caller:
    """A merchant of their own unless one is named, so that limits per merchant begin anew."""

    def __init__(self, gateway: Gateway, language: str = "en", role: str = "uploader", merchant: str = "") -> None:
        self.gateway = gateway
        self.language = language
        self.merchant = merchant or f"m-{secrets.token_hex(6)}"
        self.tus: Tus = gateway.caller(self.merchant, role)
        self.tus.usual["Accept-Language"] = language

    def as_(self, role: str) -> Self:
        return type(self)(self.gateway, self.language, role, self.merchant)

    def get(self, path: str) -> Answer:
        return self.tus.ask("GET", path)

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is None:
            return self.tus.ask("POST", path, given)
        return self.tus.ask("POST", path, {"Content-Type": "application/json", **given}, json.dumps(body).encode())

    def upload(self, content: bytes) -> str:
        """The id of a finished upload."""
        return id_of(self.tus.uploaded(content))

    def order(self, upload_id: str, key: str | None = None, **more: Any) -> Answer:
        """Ask for a job."""
        headers = {"Idempotency_Key": key} if key else {}
        return self.post(JOBS, {"upload_id": upload_id, **more}, **headers)

    def send(self, content: bytes, **more: Any) -> Answer:
        """Upload it and ask for a job."""
        return self.order(self.upload(content), **more)

    def job(self, content: bytes) -> str:
        """The id of a new job."""
        answer = self.send(content)
        assert answer.status == 201, (answer.status, answer.body)
        return str(json.loads(answer.body)["job_id"])

    def follow(self, path: str, events: int = 1) -> Answer:
        """An event stream: its first so many events, or why there are none."""
        connection = http.client.HTTPConnection(self.tus.host, self.tus.port, timeout=20)
        try:
            headers: Headers = {}
            connection.request("GET", path, headers=dict(self.tus.with_usual(headers)))
            answer = connection.getresponse()
            body = answer.read() if answer.status != 200 else _events(answer, events)
            return Answer(answer.status, answer.headers, body)
        finally:
            connection.close()

    def metric(self, name: str) -> dict[str, float]:
        """Every line of a metric that has labels, by its labels."""
        lines = [line.rpartition(" ") for line in self.get("/metrics").body.decode().splitlines()]
        return {key.removeprefix(name): float(value) for key, _, value in lines if key.startswith(name + "{")}


def _events(answer: http.client.HTTPResponse, count: int) -> bytes:
    """Up to the name of the last one."""
    read = b""
    while read.count(b"event:") < count:
        read += answer.readline()
    return read


def at_once(calls: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """All of them in flight together."""
    gate = threading.Barrier(len(calls))

    def go(call: Callable[[], Answer]) -> Answer:
        gate.wait(20)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(go, calls))
