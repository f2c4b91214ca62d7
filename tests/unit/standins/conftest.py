"""A library that all tests of the stand-ins read, and a client without limits of its own."""

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest
from tests.standins import Library


@pytest.fixture
def library() -> Library:
    return Library(1500, days=10, seed=7)


@pytest.fixture
def middle(library: Library) -> str:
    """A day in the middle, as a date."""
    return f"{library.start + timedelta(days=5):%Y-%m-%d}"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        yield client
