"""Pages read as in the product: in a locked-in process."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.kernel.sandbox import Limits, Sandbox
from penstock.pdf import PdfSettings
from penstock.pdf.pages.reading import PageDraft

Read = Callable[..., Awaitable[list[PageDraft]]]


@pytest.fixture
def page_limits(pdf_settings: PdfSettings) -> Limits:
    return Limits(memory=pdf_settings.security_memory_limit_mb << 20, wall_seconds=30, result_bytes=32 << 20)


@pytest.fixture
def read(pool: Sandbox, page_limits: Limits, saved: Callable[[bytes], Path]) -> Read:
    async def read(data: bytes, first: int = 1, last: int = 1, **options: Any) -> list[PageDraft]:
        outcome = await pool.call(
            "penstock.pdf.pages.reading:read_pages", first, last, options,
            files=[saved(data)], limits=page_limits, returns=list[PageDraft],
        )  # fmt: skip
        assert outcome.value is not None, (outcome.ending, outcome.error, outcome.message)
        return outcome.value

    return read


@pytest.fixture
def read_page(read: Read) -> Callable[..., Awaitable[PageDraft]]:
    async def read_page(data: bytes, **options: Any) -> PageDraft:
        (draft,) = await read(data, **options)
        return draft

    return read_page
