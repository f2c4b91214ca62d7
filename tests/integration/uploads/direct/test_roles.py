"""What the roles do about direct uploads."""

import asyncio
from dataclasses import replace

import pytest
from tests.support.shelf import CONTENT, pushed

from penstock.bootstrap import load_settings, started
from penstock.kernel.db import fetch_one
from penstock.uploads.direct import attendant
from penstock.uploads.direct.callback import receive
from penstock.uploads.direct.opening import open_upload
from penstock.worker import run_worker


class TestTheWorker:
    async def test_it_is_woken_for_what_became_due(self, environment, desk, bucket, phone, wish, monkeypatch):
        monkeypatch.setattr(attendant, "_LOOK_SECONDS", 3600.0)  # so that it does not look by itself
        made = asyncio.Event()

        async def become(row):
            assert row["status"] == "completed"
            made.set()

        async with started(load_settings(), role="executor") as parts:
            at_work = replace(desk, database=parts.database, queue=parts.queue, becomes={"video": become})
            vars(parts)["direct"] = at_work
            stop = asyncio.Event()
            working = asyncio.create_task(run_worker(parts, stop))
            async with asyncio.timeout(30):
                opened = await open_upload(at_work, phone, wish)
                await receive(at_work, pushed(bucket.put(opened.row["object_name"], CONTENT)))
                await made.wait()
                stop.set()
                await working
            async with parts.database.transaction() as tx:
                row = await fetch_one(tx, "select due_at, leased_until from catalog.uploads")
        assert (row["due_at"], row["leased_until"]) == (None, None)


class TestTheScheduler:
    @pytest.mark.parametrize("name", ["direct.sweep", "retention.forget"])
    async def test_it_has_the_duties(self, environment, name):
        async with started(load_settings(), role="scheduler") as parts:
            assert name in [duty.name for duty in parts.duties()]
            assert parts.direct.bucket is None
            parts.push_tokens  # noqa: B018  made at its first use, and closed with the rest
