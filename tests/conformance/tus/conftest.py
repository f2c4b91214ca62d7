"""Each test is a merchant of its own; the server process is one for all."""

import secrets

import pytest
from tests.support.gateway import Gateway
from tests.support.tus import Tus


@pytest.fixture
def tus(gateway: Gateway) -> Tus:
    return gateway.caller(f"m-{secrets.token_hex(6)}")
