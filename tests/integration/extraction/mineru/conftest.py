"""A provider beside each of MinerU's stand-ins, in a hurry."""

import hashlib
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pikepdf
import pytest
from tests.standins.mineru import TOKEN, Mineru
from tests.support.notebooks import opened
from tests.support.pdfs import text_pages

from penstock.extraction.ports import Document, Tools
from penstock.extraction.providers.mineru import MineruProvider, MineruSettings
from penstock.kernel.clock import SystemClock

HURRIED = {
    "poll_first_seconds": timedelta(milliseconds=1),
    "poll_most_seconds": timedelta(milliseconds=4),
    "read_timeout_seconds": timedelta(seconds=20),
}


async def count_pages(path: Path, media_type: str) -> int:
    with pikepdf.open(path) as document:
        return len(document.pages)


def document_of(path: Path, pages: int = 2, media_type: str = "application/pdf") -> Document:
    data = text_pages(pages, 2) if media_type == "application/pdf" else b"\x89PNG\r\n\x1a\n"
    path.write_bytes(data)
    return Document(path, "Q3 prices of Miller & Co.pdf", media_type, len(data), hashlib.sha256(data).hexdigest())


@asynccontextmanager
async def provider_at(base_url: str, **settings):
    settings = {"token": TOKEN, **HURRIED, **settings}
    provider = MineruProvider(MineruSettings(base_url=base_url, **settings), Tools(SystemClock(), count_pages))
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture
def document(tmp_path):
    return document_of(tmp_path / "document")


@pytest.fixture
async def notebook(tmp_path):
    return await opened(tmp_path / "notebook")


@pytest.fixture
async def hosted():
    async with Mineru("hosted").running() as service:
        yield service


@pytest.fixture(params=["hosted", "v2", "v3", "v4"])
async def service(request):
    async with Mineru(request.param).running() as service:
        yield service


@pytest.fixture(params=["hosted", "v3", "v4"])
async def queueing(request):
    """The families that have tasks."""
    async with Mineru(request.param).running() as service:
        yield service
