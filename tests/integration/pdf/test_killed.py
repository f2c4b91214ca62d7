"""A reader that is killed from outside says nothing about the file that it was reading."""

import asyncio
import os
import signal

import pytest
from tests.support.pdfs import document
from tests.support.sandboxes import until

from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner, PdfSettings, pdf_sandbox


@pytest.fixture
async def own_pool():
    async with pdf_sandbox(PdfSettings(), SandboxSettings(workers=1)) as sandbox:
        yield sandbox


async def held_up(sandbox, path) -> tuple[asyncio.Task, int]:
    """An inspection that has begun and gets no further, and the process that would do it."""
    template = sandbox._template
    os.kill(template.pid, signal.SIGSTOP)
    looking = asyncio.create_task(Examiner(sandbox, PdfSettings()).inspect(path))
    await until(lambda: len(template._ends) == 1)
    return looking, template.pid


class TestBeingKilled:
    async def test_a_good_file_whose_reader_was_killed_is_looked_at_again(self, own_pool, saved):
        looking, pid = await held_up(own_pool, saved(document()))
        os.kill(pid, signal.SIGKILL)
        assert (await looking).ok

    async def test_a_good_file_is_not_refused_because_the_pool_is_closed(self, own_pool, saved):
        looking, _ = await held_up(own_pool, saved(document()))
        await own_pool.close()
        with pytest.raises(PenstockError, match="SANDBOX_UNAVAILABLE"):
            await looking
