"""What a role finds in its environment."""

import pytest


@pytest.fixture
def environment(monkeypatch, database_url, redis_server, tmp_path):
    """Settings of a role beside the tests' servers; returns what changes them."""
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", database_url)
    monkeypatch.setenv("PENSTOCK_REDIS_URL", redis_server.url)
    monkeypatch.setenv("PENSTOCK_REDIS_PREFIX", "role")
    monkeypatch.setenv("PENSTOCK_STORE_URL", (tmp_path / "store").as_uri())
    monkeypatch.setenv("PENSTOCK_JWT_SECRET", "s" * 32)
    return monkeypatch
