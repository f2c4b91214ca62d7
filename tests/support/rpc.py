"""A gRPC server in this process, and somebody who calls it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from penstock.rpc.server import serve
from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.rpc.video.v1.upload_pb2_grpc import UploadServiceStub
from tests.support.edge import EdgeParts, bearer
from tests.support.shelf import CONTENT, md5_of

WISH = {
    "filename": "holiday.mp4", "size_bytes": len(CONTENT), "content_type": "video/mp4",
    "content_md5_hex": md5_of(CONTENT), "duration_seconds": 42,
}  # fmt: skip
DETAILS = (error_details_pb2.ErrorInfo, error_details_pb2.LocalizedMessage, error_details_pb2.BadRequest,
           error_details_pb2.RetryInfo)  # fmt: skip


@asynccontextmanager
async def running(parts: EdgeParts) -> AsyncIterator[tuple[Any, asyncio.Event]]:
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(parts, stop))
    address = f"127.0.0.1:{parts.settings.runtime.grpc_port}"
    async with grpc.aio.insecure_channel(address, [("grpc.initial_reconnect_backoff_ms", 50)]) as channel:
        await asyncio.wait_for(channel.channel_ready(), 10)
        yield channel, stop
    stop.set()
    await asyncio.wait_for(serving, 10)


class Phone:
    """Calls as an uploader unless other metadata is given."""

    def __init__(self, channel: Any, **metadata: str) -> None:
        self.channel = channel
        self.metadata = metadata or {"authorization": bearer()["Authorization"]}
        self._stub = UploadServiceStub(channel)

    def init(self, *, deadline: float | None = 20, **changes: Any) -> Any:
        asked = wire.InitResumableUploadRequest(**WISH | changes)
        return self._stub.InitResumableUpload(asked, metadata=list(self.metadata.items()), timeout=deadline)

    def look(self, upload_id: str) -> Any:
        return self._stub.GetUpload(
            wire.GetUploadRequest(upload_id=upload_id), metadata=list(self.metadata.items()), timeout=20
        )

    def with_(self, **metadata: str) -> "Phone":
        return Phone(self.channel, **self.metadata | {name.replace("_", "-"): v for name, v in metadata.items()})


class Refusal:
    """A status and its details, by their kind."""

    def __init__(self, code: grpc.StatusCode, message: str, details: bytes | None) -> None:
        self.code, self.message = code, message
        self.details: dict[str, Any] = {}
        for packed in status_pb2.Status.FromString(details or b"").details:
            for kind in DETAILS:
                if packed.Is(kind.DESCRIPTOR):
                    self.details[kind.__name__] = unpacked = kind()
                    packed.Unpack(unpacked)

    @property
    def reason(self) -> str:
        return str(self.details["ErrorInfo"].reason)


async def refused(call: Any) -> Refusal:
    try:
        await call
    except grpc.aio.AioRpcError as failure:
        found = dict(failure.trailing_metadata() or ())
        return Refusal(failure.code(), failure.details() or "", found.get("grpc-status-details-bin"))
    raise AssertionError("it was not refused")
