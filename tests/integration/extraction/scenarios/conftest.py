"""One world for all scenarios: starting a worker with its sandbox costs more than any of them."""

import pytest
from tests.support.etl_world import etl_world


@pytest.fixture(scope="package")
async def shared_world(postgres, redis_server):
    """The tests here never ask for `database_url`, which empties the tables that this worker looks at."""
    async with etl_world(postgres.url, redis_server.url) as made:
        yield made


@pytest.fixture
def world(shared_world):
    shared_world.anew()
    return shared_world


@pytest.fixture
async def alice(world):
    """Her documents are read by the local provider."""
    return await world.somebody()


@pytest.fixture
async def mina(world):
    """Her documents are read by MinerU."""
    return await world.somebody(ETL_PROVIDER="mineru")


@pytest.fixture
async def queuer(world):
    """Her tasks wait: no worker takes from their queue."""
    return await world.somebody(ETL_ARQ_QUEUE_NAME="nobody")
