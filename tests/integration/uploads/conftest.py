"""A server process, a network that can be cut before it, and a merchant of its own for every test."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.cutting_proxy import CuttingProxy
from tests.support.edge import token
from tests.support.gateway import Gateway
from tests.support.tus import UPLOADS, id_of


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
