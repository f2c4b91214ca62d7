"""What an honest merchant does while another one attacks: each operation says how long it took.

Merchants change now and then, so that the limits on one merchant's calls are not what is measured.
"""

import asyncio
import itertools
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

import grpc

from bench.direct_clients import md5_of
from bench.fair_shares.client import Events, Merchant
from bench.fair_shares.pdfs import pages_pdf, small_pdf
from bench.fair_shares.receivers import Receiver
from bench.fair_shares.system import Target
from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.rpc.video.v1.upload_pb2_grpc import UploadServiceStub

_PER_MERCHANT = 8  # samples
_RULE: dict[str, Any] = {
    "postprocess_mode": "rules",
    "json_schema": {
        "type": "object",
        "properties": {"total": {"type": "string"}, "currency": {"type": "string"}},
    },
}
_names = itertools.count(1)


class Victim(ABC):
    """One operation, by one merchant after the other."""

    name: ClassVar[str]

    def __init__(self, target: Target) -> None:
        self._target, self._used = target, 0
        self.merchant = self._new()

    async def prepare(self, stack: AsyncExitStack) -> None:  # noqa: B027  most need nothing
        """Makes once, while nobody attacks, what all samples need."""

    @abstractmethod
    async def once(self) -> float:
        """Does it, and returns the seconds that it took."""

    def _new(self) -> Merchant:
        return Merchant(self._target, f"m-a-{next(_names)}")

    def turn(self) -> Merchant:
        """The merchant of the next sample."""
        self._used += 1
        if self._used % _PER_MERCHANT == 0:
            self.merchant = self._new()
        return self.merchant


class MakeJob(Victim):
    """Uploads a small PDF and makes a job of it."""

    name = "upload + POST /jobs"

    async def once(self) -> float:
        content, merchant = small_pdf(), self.turn()
        begun = time.perf_counter()
        await merchant.make_job(content)
        return time.perf_counter() - begun


class PageImage(Victim):
    """Asks for pictures of pages that were never drawn before."""

    name = "GET own page image"
    _pages = 200

    async def prepare(self, stack: AsyncExitStack) -> None:  # noqa: ARG002  the port asks for it
        self._job = await self.merchant.make_job(pages_pdf(self._pages))
        self._page = itertools.count(1)

    async def once(self) -> float:
        path = f"/api/v1/jobs/{self._job}/pages/{next(self._page)}/image?dpi=96"
        begun = time.perf_counter()
        (await self.merchant.get(path)).expect(200)
        return time.perf_counter() - begun


class Live(Victim):
    """Asks whether the server lives: the pauses of its event loop."""

    name = "GET /health/live"

    async def once(self) -> float:
        begun = time.perf_counter()
        (await self.merchant.get("/health/live")).expect(200)
        return time.perf_counter() - begun


class ListJobs(Victim):
    """Lists its own jobs."""

    name = "GET /jobs"

    async def prepare(self, stack: AsyncExitStack) -> None:  # noqa: ARG002  the port asks for it
        for _ in range(3):
            await self.merchant.make_job(small_pdf())

    async def once(self) -> float:
        begun = time.perf_counter()
        (await self.merchant.get("/api/v1/jobs?limit=50")).expect(200)
        return time.perf_counter() - begun


class WriteRule(Victim):
    """Writes a small rule."""

    name = "POST /etl/rules"

    async def once(self) -> float:
        merchant = self.turn()
        begun = time.perf_counter()
        await _written(merchant)
        return time.perf_counter() - begun


class TryRule(Victim):
    """Tries a small rule on two lines."""

    name = "POST /etl/rules/{id}/try"
    _rules: dict[str, int]

    async def prepare(self, stack: AsyncExitStack) -> None:  # noqa: ARG002  the port asks for it
        self._ready = [self._new() for _ in range(16)]
        self._rules = {each.name: await _written(each) for each in self._ready}
        self._turns = itertools.cycle(self._ready)

    async def once(self) -> float:
        merchant = next(self._turns)
        path = f"/api/v1/etl/rules/{self._rules[merchant.name]}/try"
        begun = time.perf_counter()
        (await merchant.post(path, {"text": "Total: 42.00 EUR\nCurrency: EUR\n"})).expect(200)
        return time.perf_counter() - begun


async def _written(merchant: Merchant) -> int:
    answer = (await merchant.post("/api/v1/etl/rules", {**_RULE, "name": f"rule {next(_names)}"})).expect(201)
    return int(json.loads(answer.body)["rule_id"])


class RunTask(Victim):
    """Submits a document of one page and waits until it has been read."""

    name = "ETL task, end to end"

    async def once(self) -> float:
        content, merchant = small_pdf(), self.turn()
        begun = time.perf_counter()
        path = await merchant.submit_task(content)
        status = ""
        while status not in ("completed", "failed", "cancelled"):
            await asyncio.sleep(0.05)
            status = json.loads((await merchant.get(path)).expect(200).body)["status"]
        if status != "completed":
            raise RuntimeError(f"the task ended as {status}")
        return time.perf_counter() - begun


class Delivered(Victim):
    """Finishes an upload and waits until its own server has been told of it."""

    name = "event to own webhook"

    async def prepare(self, stack: AsyncExitStack) -> None:
        self._receiver = await stack.enter_async_context(Receiver())
        wanted = {"url": self._receiver.address("honest"), "event_types": ["upload.finished"]}
        (await self.merchant.post("/api/v1/webhooks", wanted)).expect(201)

    async def once(self) -> float:
        upload = await self.merchant.upload(small_pdf())
        begun = time.perf_counter()
        await self._receiver.until_told(upload)
        return time.perf_counter() - begun


class Streamed(Victim):
    """Cancels a job and waits until its own open stream tells of it."""

    name = "cancel job, event on own stream"
    _merchants = 6

    async def prepare(self, stack: AsyncExitStack) -> None:
        merchants = [self._new() for _ in range(self._merchants)]
        self._turns = itertools.cycle([(each, await stack.enter_async_context(Events(each))) for each in merchants])

    async def once(self) -> float:
        merchant, events = next(self._turns)
        job = await merchant.make_job(small_pdf())
        begun = time.perf_counter()
        (await merchant.post(f"/api/v1/jobs/{job}/cancel", {})).expect(200)
        await events.until(job.encode())
        return time.perf_counter() - begun


class UploadMegabyte(Victim):
    """Uploads 1 MiB in one PATCH."""

    name = "upload of 1 MiB"
    _content = b"%PDF-1.7\n".ljust(1 << 20, b"x")

    async def once(self) -> float:
        merchant = self.turn()
        begun = time.perf_counter()
        await merchant.upload(self._content)
        return time.perf_counter() - begun


class Announce(Victim):
    """Announces a file over gRPC, on a connection of its own."""

    name = "gRPC InitResumableUpload"

    async def prepare(self, stack: AsyncExitStack) -> None:
        self._stub = await stack.enter_async_context(grpc_stub(self.merchant.target))

    async def once(self) -> float:
        asked = announcement(f"honest {next(_names)}")
        begun = time.perf_counter()
        await announce(self._stub, self.merchant, asked)
        return time.perf_counter() - begun


@asynccontextmanager
async def grpc_stub(target: Target) -> AsyncIterator[Any]:
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{target.grpc}", options=options) as channel:
        yield UploadServiceStub(channel)


def announcement(content: str) -> wire.InitResumableUploadRequest:
    return wire.InitResumableUploadRequest(
        filename="a.mp4", size_bytes=3_000_000, content_type="video/mp4", content_md5_hex=md5_of(content),
        duration_seconds=42,
    )  # fmt: skip


async def announce(stub: Any, merchant: Merchant, asked: wire.InitResumableUploadRequest) -> None:
    """A refusal is a RuntimeError, as over HTTP."""
    metadata = (("authorization", merchant.headers["authorization"]),)
    try:
        await stub.InitResumableUpload(asked, metadata=metadata, timeout=20)
    except grpc.aio.AioRpcError as refusal:
        raise RuntimeError(f"answered {refusal.code().name}") from None
