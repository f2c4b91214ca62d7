"""Two warm sandbox workers for all tests of a file."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.sandboxes import make

from penstock.kernel.sandbox import Sandbox


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[Sandbox]:
    async with make(workers=2) as made:
        yield made


@pytest.fixture
async def sandbox(pool: Sandbox) -> AsyncIterator[Sandbox]:
    """Two warm workers; after every test the next calls must work, whatever the test did."""
    yield pool
    answers = await asyncio.gather(*(pool.call("hostile:add", 1, each) for each in range(6)))
    assert [answer.value for answer in answers] == [1, 2, 3, 4, 5, 6]
