"""A merchant's HTTP calls: one connection for each, as many as are wanted at a time."""

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import Any, Self

from bench.direct_clients import Answer, HttpClient
from bench.fair_shares.system import Target

TUS = {"tus-resumable": "1.0.0"}
OCTETS = {**TUS, "content-type": "application/offset+octet-stream"}


@dataclass
class Merchant:
    """Calls with one merchant's token."""

    target: Target
    name: str
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.headers = {"authorization": f"Bearer {self.target.token(self.name)}"}

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:  # fmt: skip
        """A body that is no bytes is sent as JSON."""
        told = {**self.headers, "connection": "close", **(headers or {})}
        data = body if isinstance(body, bytes) else b""
        if body is not None and not isinstance(body, bytes):
            told["content-type"], data = "application/json", json.dumps(body).encode()
        async with HttpClient(self.target.http) as client:
            return await client.ask(method, path, told, data)

    async def upload(self, content: bytes, name: str = "a.pdf") -> str:
        """A finished upload in two requests; its id."""
        where = await self.begin_upload(len(content), name)
        answer = await self.ask("PATCH", where, content, {**OCTETS, "upload-offset": "0"})
        answer.expect(204)
        return where.rpartition("/")[2]

    async def begin_upload(self, length: int, name: str = "a.pdf") -> str:
        """The path of a new upload."""
        coded = base64.b64encode(name.encode()).decode()
        headers = {**TUS, "upload-length": str(length), "upload-metadata": f"filename {coded}"}
        answer = (await self.ask("POST", "/api/v1/uploads", headers=headers)).expect(201)
        return "/api/v1/uploads/" + answer.headers["location"].rpartition("/")[2]

    async def make_job(self, content: bytes, name: str = "a.pdf") -> str:
        upload = await self.upload(content, name)
        return str(json.loads((await self.post("/api/v1/jobs", {"upload_id": upload})).expect(201).body)["job_id"])

    async def submit_task(self, content: bytes, rule_id: int | None = None) -> str:
        """An ETL task of a new upload; its path."""
        asked: dict[str, Any] = {"upload_id": await self.upload(content)}
        if rule_id is not None:
            asked["rule_id"] = rule_id
        answer = (await self.post("/api/v1/etl/submit", asked)).expect(202)
        return f"/api/v1/etl/tasks/{json.loads(answer.body)['task_id']}"

    async def post(self, path: str, body: Any) -> Answer:
        return await self.ask("POST", path, body)

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)


class Events:
    """An open event stream, read line by line."""

    def __init__(self, merchant: Merchant, path: str = "/api/v1/dashboard/events", after: str = "") -> None:
        self._merchant, self._path, self._after = merchant, path, after

    async def __aenter__(self) -> Self:
        port = self._merchant.target.http
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        more = f"last-event-id: {self._after}\r\n" if self._after else ""
        head = f"GET {self._path} HTTP/1.1\r\nhost: bench\r\nauthorization: {self._merchant.headers['authorization']}"
        self._writer.write(f"{head}\r\n{more}\r\n".encode())
        self.status = int((await self._reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def until(self, text: bytes) -> bytes:
        """Reads on to the line with this text."""
        while True:
            line = await self._reader.readline()
            if not line:
                raise RuntimeError("the event stream ended")
            if text in line:
                return line
