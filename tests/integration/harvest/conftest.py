"""Harvests against stand-ins."""

from functools import partial

import pytest
from tests.support.harvesting import harvesting


@pytest.fixture
def beside(database, redis_client):
    """`async with beside(NAME, library, …) as here`: a desk beside a stand-in."""
    return partial(harvesting, database, redis_client)
