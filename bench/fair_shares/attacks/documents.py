"""Attacks on what looks into PDFs: the sandbox, admissions, page images."""

import asyncio
import contextlib

from bench.direct_clients import Answer
from bench.fair_shares.attacks.effort import Effort
from bench.fair_shares.pdfs import slow_pdf, small_pdf

_PAGES, _FILLS = 1_000, 45  # 182 kB; about 6 s of processor for each page where ink is measured
_PATIENCE = 1.5  # seconds until a client hangs up


async def occupy_sandbox(effort: Effort) -> None:
    """Jobs of documents of 1,000 slow pages; half of the clients hang up and come back with another file."""

    async def submit(number: int) -> Answer | str:
        upload = await effort.merchant.upload(slow_pdf(_PAGES, _FILLS))
        asked = effort.merchant.post("/api/v1/jobs", {"upload_id": upload})
        if number % 2:
            return await asked
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                return await asked
        return "hung up"

    effort.in_force_after(3.0)
    await effort.keep_up("slow job", 8, submit)


async def flood_admissions(effort: Effort) -> None:
    """Small jobs as fast as the limit allows, with as many clients waiting as they like."""

    async def submit(number: int) -> Answer | str:  # noqa: ARG001  all do the same
        upload = await effort.merchant.upload(small_pdf())
        return await effort.merchant.post("/api/v1/jobs", {"upload_id": upload})

    effort.in_force_after(2.0)
    await effort.keep_up("job", 32, submit)


async def draw_pages(effort: Effort) -> None:
    """Six jobs whose pages cannot be drawn in time; pictures of their pages at 200 dpi again and again."""
    jobs = [await effort.merchant.make_job(slow_pdf(20, 600, with_text=True)) for _ in range(6)]

    async def draw(number: int) -> Answer | str:
        page = (number // len(jobs)) % 20 + 1
        return await effort.merchant.get(f"/api/v1/jobs/{jobs[number % len(jobs)]}/pages/{page}/image?dpi=200")

    effort.in_force_after(2.0)
    await effort.keep_up("image", 24, draw)
