"""One bucket for all tests, and one who is told."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.bucket import BucketThread, Listener, listening


@pytest.fixture(scope="session")
def shared_listener() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


@pytest.fixture(scope="session")
def shared_bucket(shared_listener: Listener, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketThread]:
    home: Path = tmp_path_factory.mktemp("bucket")
    with BucketThread(home, push_url=shared_listener.url, push_wait=0.05, push_wait_most=0.2) as bucket:
        yield bucket


@pytest.fixture
def listener(shared_listener: Listener) -> Listener:
    shared_listener.clear()
    return shared_listener


@pytest.fixture
def bucket(shared_bucket: BucketThread) -> Iterator[BucketThread]:
    yield shared_bucket
    shared_bucket.faults.__init__()


@pytest.fixture
def name() -> str:
    return f"videos/{uuid.uuid4()}"
