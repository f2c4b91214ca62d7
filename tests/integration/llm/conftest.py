"""The adapter beside a stand-in."""

from functools import partial

import pytest
from tests.support.asking import asking

from penstock.kernel.db import Database


@pytest.fixture(scope="module")
async def shared_database(postgres):
    opened = Database(postgres.url, name="test", size=20)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def database(shared_database):
    """Only what calls write is emptied: these tests are many, and emptying everything takes longer than they do."""
    yield shared_database
    async with shared_database.transaction() as tx:
        await tx.execute("delete from llm_call")
        await tx.execute("delete from budget_reservations")
        await tx.execute("delete from budgets")


@pytest.fixture
def beside(database, redis_client, keys):
    """`async with beside(SAYS, …) as here`; `standin={…}` for its options, the rest are settings."""
    return partial(asking, database, redis_client, keys)
