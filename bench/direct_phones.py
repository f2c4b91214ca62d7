"""Two hundred phones at once: announce, begin a session, send the chunks, and wait until the upload is complete.

The bytes go through the embedded bucket, which checks the signature, hashes and syncs each chunk, and pushes a signed
notification to `penstock serve`, which completes the upload. Beside it the same bytes in the same chunks go to a server
that appends them to a file and syncs it. Times run to the moment that the database noted, by the clock of this machine.
"""

import asyncio
import hashlib
import os
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import grpc

from bench.direct_clients import HttpClient, percentile
from bench.direct_stage import MiB, Stage, token_of
from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.rpc.video.v1.upload_pb2_grpc import UploadServiceStub

PHONES = 200
CHUNKS, CHUNK = 2, MiB
_SIZE = CHUNKS * CHUNK
_TAIL = 64
_LIMIT = 60
_HEADERS = {"content-type": "video/mp4", "x-upload-content-type": "video/mp4", "x-goog-if-generation-match": "0",
            "x-goog-resumable": "start"}  # fmt: skip


@dataclass
class Films:
    """As many files as wanted, all alike but for their ends: so their hashes cost the client nothing."""

    body: bytes = field(default_factory=lambda: os.urandom(_SIZE - _TAIL))

    def __post_init__(self) -> None:
        self._hash = hashlib.md5(self.body, usedforsecurity=False)

    def md5(self, tail: bytes) -> str:
        whole = self._hash.copy()
        whole.update(tail)
        return whole.hexdigest()

    def chunk(self, number: int, tail: bytes) -> tuple[bytes | memoryview, ...]:
        part = memoryview(self.body)[number * CHUNK : (number + 1) * CHUNK]
        return (part, tail) if number == CHUNKS - 1 else (part,)


@dataclass
class Sent:
    """By one phone: its upload, when it began, when it had its last answer."""

    upload_id: str
    began: float
    answered: float


async def send_all(stage: Stage, films: Films, round_number: int) -> tuple[dict[str, float], dict[str, float]]:
    """What ours gave, and what the bare server gave."""
    before = stage.cpu()
    begun = time.perf_counter()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stage.grpc}") as channel:
        stub = UploadServiceStub(channel)
        phones = (_phone(stage, films, stub, round_number * PHONES + number) for number in range(PHONES))
        sent = await asyncio.gather(*phones)
        stored = time.perf_counter() - begun
        completed = await _until_completed(stage, sent)
        whole = time.perf_counter() - begun
        await _look(stub, sent[0])
    used = {name: seconds - before[name] for name, seconds in stage.cpu().items()}
    waits = [completed[each.upload_id] - each.began for each in sent]
    late = [max(0.0, completed[each.upload_id] - each.answered) for each in sent]
    gigabytes = PHONES * _SIZE / 1e9
    ours = {
        "mb_s": PHONES * _SIZE / stored / 1e6, "to_completed_mb_s": PHONES * _SIZE / whole / 1e6,
        "completed_p50_s": percentile(waits, 0.5), "completed_p95_s": percentile(waits, 0.95),
        "after_last_byte_p50_s": percentile(late, 0.5), "after_last_byte_p95_s": percentile(late, 0.95),
        "bucket_cpu_s_per_gb": used["bucket"] / gigabytes, "serve_cpu_ms_per_phone": used["serve"] / PHONES * 1000,
    }  # fmt: skip
    return ours, await _send_bare(stage, films)


async def _phone(stage: Stage, films: Films, stub: UploadServiceStub, number: int) -> Sent:
    tail = f"{number:0{_TAIL}}".encode()
    began = time.time()
    asked = wire.InitResumableUploadRequest(
        filename="film.mp4", size_bytes=_SIZE, content_type="video/mp4", content_md5_hex=films.md5(tail)
    )
    metadata = (("authorization", f"Bearer {token_of(number % PHONES)}"),)
    opened = await stub.InitResumableUpload(asked, metadata=metadata, timeout=_LIMIT)
    async with HttpClient(stage.bucket) as client:
        start = await client.ask("POST", _target(opened.resumable_init_url), _HEADERS)
        session = _target(start.expect(201).headers["location"])
        for chunk in range(CHUNKS):
            first = chunk * CHUNK
            span = {"content-range": f"bytes {first}-{first + CHUNK - 1}/{_SIZE}"}
            answer = await client.ask("PUT", session, span, *films.chunk(chunk, tail))
            answer.expect(200 if chunk == CHUNKS - 1 else 308)
    return Sent(opened.upload_id, began, time.time())


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


async def _until_completed(stage: Stage, sent: list[Sent]) -> dict[str, float]:
    """When each was completed. All are, and the event of each was written once, or the benchmark fails."""
    ids = [each.upload_id for each in sent]
    deadline = time.monotonic() + _LIMIT
    query = (
        "select upload_id::text, extract(epoch from completed_at)::float8 from catalog.uploads"
        " where upload_id = any(%s::uuid[]) and status = 'completed'"
    )
    while len(found := dict(await asyncio.to_thread(stage.rows, query, ids))) < len(ids):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(ids) - len(found)} of {len(ids)} phones never came to an end")
        await asyncio.sleep(0.05)
    check_events(stage, ids)
    return found


def check_events(stage: Stage, upload_ids: list[str]) -> None:
    told = stage.rows(
        "select payload->>'upload_id', count(*) from outbox_events where event_type = 'video.upload.completed'"
        " and payload->>'upload_id' = any(%s) group by 1",
        upload_ids,
    )
    if len(told) != len(upload_ids) or any(count != 1 for _, count in told):
        raise RuntimeError("an upload has no event, or more than one")


async def _look(stub: UploadServiceStub, sent: Sent) -> None:
    metadata = (("authorization", f"Bearer {token_of(0)}"),)
    found = await stub.GetUpload(wire.GetUploadRequest(upload_id=sent.upload_id), metadata=metadata, timeout=_LIMIT)
    if found.status != "completed" or found.size_bytes != _SIZE:
        raise RuntimeError(f"the phone is told {found.status}")


async def _send_bare(stage: Stage, films: Films) -> dict[str, float]:
    async def phone(number: int) -> None:
        tail = f"{number:0{_TAIL}}".encode()
        async with HttpClient(stage.store) as client:
            for chunk in range(CHUNKS):
                (await client.ask("PUT", f"/{number}", {}, *films.chunk(chunk, tail))).expect(200)

    before, begun = stage.cpu()["store"], time.perf_counter()
    await asyncio.gather(*(phone(number) for number in range(PHONES)))
    seconds = time.perf_counter() - begun
    used = stage.cpu()["store"] - before
    for file in stage.directory.glob("bare-*"):
        if file.stat().st_size != _SIZE:
            raise RuntimeError("the bare server has lost bytes")
        file.unlink()
    return {"mb_s": PHONES * _SIZE / seconds / 1e6, "cpu_s_per_gb": used / (PHONES * _SIZE / 1e9)}
