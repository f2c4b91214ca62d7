"""One warm pool for all tests of this folder, as in the product."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from penstock.kernel.sandbox import Sandbox, SandboxSettings
from penstock.pdf import Examiner, PdfSettings, pdf_sandbox


@pytest.fixture(scope="session")
def pdf_settings() -> PdfSettings:
    return PdfSettings()


@pytest.fixture(scope="session")
async def pool(pdf_settings: PdfSettings) -> AsyncIterator[Sandbox]:
    async with pdf_sandbox(pdf_settings, SandboxSettings()) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def examiner(pool: Sandbox, pdf_settings: PdfSettings) -> Examiner:
    return Examiner(pool, pdf_settings)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[bytes], Path]:
    def save(data: bytes) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.pdf"
        path.write_bytes(data)
        return path

    return save
