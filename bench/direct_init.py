"""Announcing a file, over gRPC and over HTTP/JSON, beside servers that only answer.

Ours checks the caller's token, counts the call against the merchant's limit in Redis, writes the row, its transition
and its event in PostgreSQL, commits, and signs an address with RSA. Files are new, or repeats of ones announced before.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import grpc

from bench.direct_clients import HttpClient, Times, at_once, md5_of
from bench.direct_stage import Stage, token_of
from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.rpc.video.v1.upload_pb2_grpc import UploadServiceStub

CROWD = 64
_ALONE_CALLS, _CROWD_CALLS = 100, 800
_SIZE = 3_000_000
Call = Callable[[int, int], Awaitable[Any]]


@dataclass
class Announcing:
    """Phones that announce files; what they were told is looked at."""

    stage: Stage
    tokens: list[str] = field(default_factory=lambda: [token_of(user) for user in range(CROWD)])
    announced: int = 0

    async def measure(self) -> dict[str, tuple[Times, float]]:
        """By name: the times, and milliseconds of the server's processor for each call."""
        found = {}
        async with _phones(self.stage.echo) as stubs:
            found |= await self._both("echo", "echo", self._grpc(stubs, new=False))
        async with _phones(self.stage.grpc) as stubs:
            found |= await self._both("new", "serve", self._grpc(stubs, new=True))
            found |= await self._both("repeat", "serve", self._grpc(stubs, new=False))
        found["http_echo_64"] = await self._http("store", self.stage.store)
        found["http_new_64"] = await self._http("serve", self.stage.http)
        return found

    async def _both(self, name: str, server: str, call: Call) -> dict[str, tuple[Times, float]]:
        await at_once(CROWD, CROWD, call)  # connections, caches, prepared statements
        return {
            f"{name}_1": await self._costed(server, 1, _ALONE_CALLS, call),
            f"{name}_64": await self._costed(server, CROWD, _CROWD_CALLS, call),
        }

    async def _costed(self, server: str, workers: int, calls: int, call: Call) -> tuple[Times, float]:
        before = self.stage.cpu()[server]
        times = await at_once(workers, calls, call)
        return times, (self.stage.cpu()[server] - before) / calls * 1000

    def _grpc(self, stubs: list[Any], *, new: bool) -> Call:
        async def call(worker: int, number: int) -> None:
            asked = wire.InitResumableUploadRequest(**self._file(worker, number, new=new))
            metadata = (("authorization", f"Bearer {self.tokens[worker]}"),)
            answer = await stubs[worker].InitResumableUpload(asked, metadata=metadata, timeout=60)
            _check(answer.object_name, asked.content_md5_hex, answer.resumable_init_url, self.stage)

        return call

    async def _http(self, server: str, port: int) -> tuple[Times, float]:
        clients = [HttpClient(port) for _ in range(CROWD)]
        for each in clients:
            await each.__aenter__()

        async def call(worker: int, number: int) -> None:
            asked = self._file(worker, number, new=True)
            headers = {"authorization": f"Bearer {self.tokens[worker]}", "content-type": "application/json"}
            body = json.dumps(asked).encode()
            said = json.loads(
                (await clients[worker].ask("POST", "/api/v1/direct-uploads", headers, body)).expect(200).body
            )
            if server == "serve":
                _check(said["object_name"], asked["content_md5_hex"], said["resumable_init_url"], self.stage)

        await at_once(CROWD, CROWD, call)
        try:
            return await self._costed(server, CROWD, _CROWD_CALLS, call)
        finally:
            for each in clients:
                await each.__aexit__()

    def _file(self, worker: int, number: int, *, new: bool) -> dict[str, Any]:
        self.announced += new
        content = f"new {self.announced}" if new else f"repeat {number % 16}"
        return {
            "filename": f"holiday-{worker}.mp4", "size_bytes": _SIZE, "content_type": "video/mp4",
            "content_md5_hex": md5_of(content), "duration_seconds": 42,
        }  # fmt: skip


@asynccontextmanager
async def _phones(port: int) -> AsyncIterator[list[Any]]:
    """Each has a connection of its own, as phones have."""
    async with AsyncExitStack() as stack:
        alone = [("grpc.use_local_subchannel_pool", 1)]
        yield [
            UploadServiceStub(
                await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=alone))
            )
            for _ in range(CROWD)
        ]


def _check(object_name: str, md5: str, url: str, stage: Stage) -> None:
    if not object_name.endswith(md5):
        raise RuntimeError("the answer is another's")
    if urlsplit(url).netloc not in ("", f"127.0.0.1:{stage.bucket}"):
        raise RuntimeError("the address is not the bucket's")
