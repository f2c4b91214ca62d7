"""One merchant's transactions leave half of the pool to the others."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.shares import ON_BEHALF_OF


@pytest.fixture
async def small(database_url):
    opened = Database(database_url, name="test", size=4, wait_seconds=0.3)
    await opened.open()
    yield opened
    await opened.close()


async def ask(database: Database, merchant: str | None) -> int:
    ON_BEHALF_OF.set(merchant)
    async with database.transaction() as tx:
        row = await (await tx.execute("select 1 as one")).fetchone()
    return row["one"]


async def hold(database: Database, merchant: str, held: AsyncExitStack) -> None:
    ON_BEHALF_OF.set(merchant)
    await held.enter_async_context(database.transaction())


class TestThePool:
    async def test_one_merchant_holds_at_most_half_of_it(self, small):
        async with AsyncExitStack() as held:
            await hold(small, "m-1", held)
            await hold(small, "m-1", held)
            with pytest.raises(PenstockError, match="RATE_LIMITED") as refused:
                await asyncio.create_task(ask(small, "m-1"))
            assert refused.value.details["retry_after"] == 1.0
            assert await asyncio.create_task(ask(small, "m-2")) == 1
            assert await asyncio.create_task(ask(small, None)) == 1

    async def test_whoever_waits_is_next(self, small):
        async with AsyncExitStack() as held:
            await hold(small, "m-1", held)
            async with AsyncExitStack() as briefly:
                await hold(small, "m-1", briefly)
                waiting = asyncio.create_task(ask(small, "m-1"))
                await asyncio.sleep(0)
                assert not waiting.done()
            assert await waiting == 1

    async def test_nothing_is_kept_of_merchants_that_have_gone(self, small):
        await asyncio.gather(*(ask(small, f"m-{n}") for n in range(20)))
        assert small._shares._free == {}
