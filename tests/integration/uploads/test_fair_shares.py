"""One merchant that sends very much at once does not keep another waiting."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.tus import metadata
from tests.support.uploads import CALLER, body, uploads_in

from penstock.kernel.db import Database
from penstock.kernel.identity import Caller
from penstock.uploads.tus import Chunk, Uploads, Wish

GREEDY, MODEST = replace(CALLER, merchant_id="m-greedy"), replace(CALLER, merchant_id="m-modest")
MANY = 150


@pytest.fixture
async def uploads(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Uploads]:
    """On a disk that takes its time."""
    sync, copy = os.fdatasync, os.sendfile
    monkeypatch.setattr(os, "fdatasync", lambda file: (time.sleep(0.02), sync(file))[1])
    monkeypatch.setattr(os, "sendfile", lambda *given: (time.sleep(0.1), copy(*given))[1])
    made = uploads_in(tmp_path, database)
    yield made
    made.close()


async def sent(uploads: Uploads, caller: Caller, concat: str | None = None) -> str:
    made = await uploads.create(caller, Wish(4, metadata(), concat))
    await uploads.append(made.upload_id, caller.merchant_id, Chunk(0, 4), body(b"abcd"))
    return made.upload_id


async def done_before(one: asyncio.Task[object], others: list[asyncio.Task[object]]) -> int:
    """How many of the others had ended when this one did."""
    await one
    done = sum(each.done() for each in others)
    await asyncio.gather(*others)
    return done


class TestSending:
    async def test_one_upload_does_not_wait_for_another_merchants_many(self, uploads):
        many = [asyncio.create_task(sent(uploads, GREEDY)) for _ in range(MANY)]
        await asyncio.sleep(0)
        assert await done_before(asyncio.create_task(sent(uploads, MODEST)), many) < MANY // 2


class TestJoining:
    async def test_one_join_does_not_wait_for_another_merchants_many(self, uploads):
        part, other = [await sent(uploads, caller, "partial") for caller in (GREEDY, MODEST)]

        def joined(caller: Caller, of: str) -> asyncio.Task[object]:
            return asyncio.create_task(uploads.create(caller, Wish(None, metadata(), f"final;/api/v1/uploads/{of}")))

        many = [joined(GREEDY, part) for _ in range(12)]
        await asyncio.sleep(0.05)
        assert await done_before(joined(MODEST, other), many) <= 4
