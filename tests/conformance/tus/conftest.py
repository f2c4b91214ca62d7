"""Each test is a merchant of its own; the server process is one for all."""

import secrets
from collections.abc import Iterator

import pytest
from tests.support.gateway import Gateway
from tests.support.tus import Tus


@pytest.fixture
def tus(gateway: Gateway) -> Tus:
    return gateway.caller(f"m-{secrets.token_hex(6)}")


@pytest.fixture(scope="module")
def scheduler(gateway: Gateway) -> Iterator[None]:
    with gateway.scheduler():
        yield
