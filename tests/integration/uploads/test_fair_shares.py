"""One merchant that sends very much at once does not keep another waiting."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.clock import TurnedClock
from tests.support.tus import metadata
from tests.support.uploads import CALLER, body, uploads_in

from penstock.kernel.db import Database
from penstock.kernel.identity import Caller
from penstock.kernel.turns import Turns
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

    async def test_beside_others_the_bytes_of_two_are_asked_for_at_a_time(self, uploads):
        asked = most = 0

        def watched(pieces: int):
            left = [b"a"] * pieces

            async def piece() -> bytes | None:
                nonlocal asked, most
                asked, most = asked + 1, max(most, asked + 1)
                await asyncio.sleep(0)
                asked -= 1
                return left.pop() if left else None

            return piece

        async def send() -> None:
            made = await uploads.create(GREEDY, Wish(20, metadata()))
            await uploads.append(made.upload_id, GREEDY.merchant_id, Chunk(0, 20), watched(20))

        async with uploads.turns.of(MODEST.merchant_id):
            await asyncio.gather(*(send() for _ in range(10)))
        assert most <= 2


class TestTurns:
    async def test_a_merchant_has_many_when_alone_and_few_beside_others(self):
        clock = TurnedClock()
        turns = Turns(clock)
        many = [turns.of("m-greedy") for _ in range(40)]
        taken = [asyncio.create_task(each.take()) for each in many]
        await asyncio.sleep(0)
        assert sum(each.done() for each in taken) == 32
        async with asyncio.timeout(1), turns.of("m-modest"):
            for each in many[:32]:
                each.give()
            await asyncio.sleep(0.1)
            assert sum(each.done() for each in taken) == 32 + 2
        clock.advance(2)
        many[32].give()
        await asyncio.gather(*taken)

    async def test_one_that_lasts_long_is_given_back(self):
        turns = Turns(TurnedClock())
        held = [turns.of("m-1") for _ in range(32)]
        for each in held:
            await each.take()
        held[0].give_after(0.01)
        await asyncio.wait_for(turns.of("m-1").take(), 1)
        held[0].give()  # at its end, as always: nothing is given back twice
        next_one = asyncio.create_task(turns.of("m-1").take())
        await asyncio.sleep(0.02)
        assert not next_one.done()
        next_one.cancel()

    async def test_one_that_is_cut_off_while_it_waits_takes_none_with_it(self):
        turns = Turns(TurnedClock())
        held = [turns.of("m-1") for _ in range(32)]
        for each in held:
            await each.take()
        gone, next_one = [asyncio.create_task(turns.of("m-1").take()) for _ in range(2)]
        await asyncio.sleep(0)
        held[0].give()
        gone.cancel()
        await asyncio.wait_for(next_one, 1)


class TestJoining:
    async def test_one_join_does_not_wait_for_another_merchants_many(self, uploads):
        part, other = [await sent(uploads, caller, "partial") for caller in (GREEDY, MODEST)]

        def joined(caller: Caller, of: str) -> asyncio.Task[object]:
            return asyncio.create_task(uploads.create(caller, Wish(None, metadata(), f"final;/api/v1/uploads/{of}")))

        many = [joined(GREEDY, part) for _ in range(12)]
        await asyncio.sleep(0.05)
        assert await done_before(joined(MODEST, other), many) <= 4
