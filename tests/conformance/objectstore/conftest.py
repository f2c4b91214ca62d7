"""One suite over every adapter of the object store.

`gs` runs obstore's Google client against a stand-in (see tests/support/s3.py); signing is not run there.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support import s3
from tests.support.stores import Place

from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.objectstores import open_store


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with s3.s3_server() as address:
        yield address


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place("file", open_store(f"file://{tmp_path}/store"), tmp_path / "store")


@pytest.fixture(params=["file", "s3", "gs"])
def place(request: pytest.FixtureRequest) -> Place:
    """A store that is empty, of each kind."""
    if request.param == "file":
        made: Place = request.getfixturevalue("local")
        return made
    address = request.getfixturevalue("endpoint")
    options = s3.s3_options(address) if request.param == "s3" else s3.gs_options(address)
    return Place(request.param, open_store(f"{request.param}://{s3.BUCKET}/{uuid4().hex}", options))


@pytest.fixture
def store(place: Place) -> ObjectStore:
    return place.store
