"""A server process, a network that can be cut before it, and a merchant of its own for every test."""

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.cutting_proxy import CuttingProxy
from tests.support.edge import token
from tests.support.gateway import Gateway
from tests.support.tus import UPLOADS, id_of, metadata
from tests.support.uploads import CALLER, WHOLE, body, uploads_in

from penstock.kernel.db import Database
from penstock.uploads.tus import Chunk, Uploads, Wish


@dataclass(frozen=True)
class Place:
    """Where a client uploads to, and what came of it."""

    gateway: Gateway
    network: CuttingProxy
    merchant: str
    token: str

    @property
    def endpoint(self) -> str:
        return self.network.address + UPLOADS

    def uploads(self) -> list[dict[str, Any]]:
        return self.gateway.query(
            "select * from tus_uploads where merchant_id = %s order by created_at, upload_id", self.merchant
        )

    def is_whole(self, address: str, content: bytes) -> bool:
        """Finished, and byte for byte what the client sent."""
        row = self.gateway.row(address)
        assert row["merchant_id"] == self.merchant
        return row["status"] == "FINISHED" and self.gateway.bytes_of(address) == content

    def is_gone(self, upload_id: str) -> bool:
        answer = self.gateway.caller(self.merchant).head(f"{UPLOADS}/{id_of(upload_id)}")
        return answer.status == 410 and self.gateway.file_of(upload_id) is None


@pytest.fixture
def place(gateway: Gateway) -> Iterator[Place]:
    merchant = f"m-{secrets.token_hex(6)}"
    with CuttingProxy(gateway.port) as network:
        yield Place(gateway, network, merchant, token("uploader", merchant, seconds=600))


@pytest.fixture
def content() -> bytes:
    return b"%PDF-1.7\n" + secrets.token_bytes(1_500_000)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> Path:
    made = tmp_path / "upload.pdf"
    made.write_bytes(content)
    return made


@pytest.fixture
async def uploads(database: Database, tmp_path: Path) -> AsyncIterator[Uploads]:
    made = uploads_in(tmp_path, database)
    yield made
    made.close()


@pytest.fixture
async def hasty(database: Database, tmp_path: Path) -> AsyncIterator[Uploads]:
    """The same uploads in a process whose writers give signs of life at every turn."""
    made = uploads_in(tmp_path, database, tus_commit_sec=timedelta(seconds=0.1))
    yield made
    made.close()


@pytest.fixture
async def half(uploads: Uploads) -> str:
    """An upload of which 1000 bytes are counted."""
    upload = await uploads.create(CALLER, Wish(2000, metadata()))
    await uploads.append(upload.upload_id, "m-1", Chunk(0, 1000), body(WHOLE[:1000]))
    return upload.upload_id
