"""A server, its parts and a phone."""

import pytest
from tests.support.edge import edge_parts
from tests.support.rpc import Phone, running


@pytest.fixture
async def parts(database, redis_client, keys):
    async with edge_parts(database, redis_client, keys) as made:
        yield made


@pytest.fixture
async def phone(parts):
    async with running(parts) as (channel, _):
        yield Phone(channel)
