"""Page images that are slow to draw: they cost their own merchant time, once, and nobody else."""

import asyncio
import time

import pytest
from tests.integration.documents.conftest import Counting, opened
from tests.support.pdfs import document

from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner, PdfSettings, pdf_sandbox

WORDS = " ".join(["These words make it a page of text, which is admitted without being drawn."] * 4)
BLENDS = "<</ExtGState<</B<</BM/Luminosity/ca 0.5>>>>/Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"


def slow_to_draw(number: int) -> bytes:
    """A small file that is admitted at once, and whose page takes minutes to draw."""
    fills = b"/B gs 1 0 0 rg 0 0 595 842 re f " * 2000
    said = f"BT /F 12 Tf 60 700 Td ({number} {WORDS}) Tj ET ".encode()
    return document(content=said + fills, resources=BLENDS)


@pytest.fixture
async def hasty(office):
    """The same office with a pool of its own, which gives up drawing after a second of CPU time."""
    settings = PdfSettings(render_timeout_sec=1)
    sandbox = pdf_sandbox(settings, SandboxSettings(workers=2))
    async with sandbox, opened(office.parts, Counting(Examiner(sandbox, settings))) as made:
        yield made


class TestSlowPages:
    async def test_that_a_page_cannot_be_drawn_is_kept_with_the_reason(self, hasty):
        job = await hasty.job(slow_to_draw(0))
        answers = [await hasty.get(f"/{job['job_id']}/pages/1/image", dpi=200) for _ in range(3)]
        assert [each.status_code for each in answers] == [400] * 3
        assert {each.json()["code"] for each in answers} == {"SECURITY_PARSE_TIMEOUT"}
        assert hasty.examiner.rendered == 1

    async def test_another_merchant_makes_jobs_while_they_are_drawn(self, hasty):
        """Six requests for such images made another merchant's job take 92 s."""
        jobs = [await hasty.job(slow_to_draw(each), "m-greedy") for each in range(5)]
        began = time.monotonic()
        drawing = [
            asyncio.create_task(hasty.get(f"/{each['job_id']}/pages/1/image", merchant="m-greedy", dpi=200))
            for each in jobs
        ]
        while hasty.examiner.rendered < 5:
            await asyncio.sleep(0.01)
        await hasty.job(merchant="m-a")
        taken = time.monotonic() - began
        assert not all(each.done() for each in drawing), f"the job waited for the images: {taken:.1f} s"
        for each in drawing:
            each.cancel()
        await asyncio.gather(*drawing, return_exceptions=True)

    async def test_drawing_ends_when_its_client_has_left(self, hasty):
        job = await hasty.job(slow_to_draw(0))
        drawing = asyncio.create_task(hasty.get(f"/{job['job_id']}/pages/1/image", dpi=200))
        while not hasty.examiner.rendered:
            await asyncio.sleep(0.01)
        drawing.cancel()
        await asyncio.gather(drawing, return_exceptions=True)
        assert (await hasty.files()) == [f"jobs/{job['job_id']}/source.pdf"]  # neither a picture nor a reason
