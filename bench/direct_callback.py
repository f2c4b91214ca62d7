"""Notifications of the bucket: each of another object, each with a token of its own that is signed with RSA.

Ours checks the token and the facts and completes the upload: inbox, upload, a new video, transitions and events, in one
transaction. `steady` sends at a fixed rate, and times run from the moment a notification was due, whether or not the
one before it was answered; `crowd` has 64 connections, each of which waits for its answer. `bare` is as steady, to a
server that only answers: what is above zero there is the machine's and the client's doing.
"""

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from bench.direct_clients import HttpClient, Times, at_once
from bench.direct_phones import check_events
from bench.direct_stage import Stage
from penstock.embedded.bucket.keys import PUSHER

CROWD = 64
STEADY_RATE = 50
_STEADY, _CROWD_CALLS, _WARM = 150, 300, 64


async def measure(stage: Stage) -> dict[str, tuple[Times, float, float]]:
    """By name: the times, and milliseconds of processor for each, of our server and of PostgreSQL."""
    rows = _waiting(stage, _WARM + _STEADY + _CROWD_CALLS)
    told = _Pushes(stage, rows)
    clients = [HttpClient(stage.http) for _ in range(CROWD)]
    for each in clients:
        await each.__aenter__()
    await at_once(CROWD, _WARM, lambda worker, _: told.push(clients[worker]))
    found = {"bare": (await _bare(stage, rows[:_STEADY]), 0.0, 0.0)}
    for name, calls in (("steady", _STEADY), ("crowd", _CROWD_CALLS)):
        before = stage.cpu()
        if name == "steady":
            times = await _at_a_rate(calls, told, clients)
        else:
            times = await at_once(CROWD, calls, lambda worker, _: told.push(clients[worker]))
        used = {each: (seconds - before[each]) / calls * 1000 for each, seconds in stage.cpu().items()}
        found[name] = times, used["serve"], used["postgres"]
    for each in clients:
        await each.__aexit__()
    _check(stage, [str(row[0]) for row in rows])
    return found


def _waiting(stage: Stage, count: int) -> list[tuple[Any, ...]]:
    """Uploads that were announced and whose files have not come."""
    found = stage.rows(
        "select upload_id, bucket, object_name, content_md5, expected_size, content_type from catalog.uploads"
        " where status = 'pending' order by created_at desc limit %s",
        count,
    )
    if len(found) < count:
        raise RuntimeError(f"{count} uploads are needed that wait for their files; there are {len(found)}")
    return found


def _check(stage: Stage, upload_ids: list[str]) -> None:
    query = "select count(*) from catalog.uploads where upload_id = any(%s::uuid[]) and status = 'completed'"
    if stage.rows(query, upload_ids)[0][0] != len(upload_ids):
        raise RuntimeError("a notification was acknowledged, and its upload is not complete")
    check_events(stage, upload_ids)


async def _bare(stage: Stage, rows: Sequence[tuple[Any, ...]]) -> Times:
    clients = [HttpClient(stage.store) for _ in range(CROWD)]
    for each in clients:
        await each.__aenter__()
    times = await _at_a_rate(len(rows), _Pushes(stage, rows), clients)
    for each in clients:
        await each.__aexit__()
    return times


async def _at_a_rate(calls: int, told: "_Pushes", clients: Sequence[HttpClient]) -> Times:
    free: asyncio.Queue[HttpClient] = asyncio.Queue()
    for client in clients:
        free.put_nowait(client)
    each: list[float] = []

    async def one(due: float) -> None:
        client = await free.get()
        await told.push(client)
        free.put_nowait(client)
        each.append(time.perf_counter() - due)

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(calls):
            due = begun + number / STEADY_RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(due))
    return Times(time.perf_counter() - begun, each)


class _Pushes:
    """Made and signed beforehand: the client must not be what is measured."""

    def __init__(self, stage: Stage, rows: Sequence[tuple[Any, ...]]) -> None:
        keys, now = stage.keys(), datetime.now(UTC)
        usual = {
            "iss": stage.bucket_address, "aud": stage.callback, "azp": "1", "sub": "1", "email": PUSHER,
            "email_verified": True, "iat": now, "exp": now + timedelta(hours=1),
        }  # fmt: skip
        self._left = iter(
            [
                (
                    jwt.encode({**usual, "jti": str(row[0])}, keys.pusher, "RS256", {"kid": keys.push_key_id}),
                    _notice(row),
                )
                for row in rows
            ]
        )

    async def push(self, client: HttpClient) -> None:
        token, body = next(self._left)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        (await client.ask("POST", "/_/gcs/callback", headers, body)).expect(204, 200)


def _notice(row: tuple[Any, ...]) -> bytes:
    upload_id, bucket, name, md5, size, content_type = row
    resource = {
        "kind": "storage#object", "bucket": bucket, "name": name, "generation": "1700000000000000", "size": str(size),
        "contentType": content_type, "md5Hash": base64.b64encode(bytes.fromhex(md5)).decode(), "crc32c": "AAAAAA==",
        "etag": "CAE=", "timeCreated": datetime.now(UTC).isoformat(),
    }  # fmt: skip
    data = base64.b64encode(json.dumps(resource).encode()).decode()
    attributes = {"eventType": "OBJECT_FINALIZE", "bucketId": bucket, "objectId": name}
    message = {"data": data, "messageId": str(upload_id), "attributes": attributes}
    return json.dumps({"subscription": "projects/penstock/subscriptions/uploads", "message": message}).encode()
