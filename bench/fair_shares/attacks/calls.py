"""Attacks with calls alone: ETL tasks that take long, gRPC calls, and the slowest questions to the database."""

import asyncio
import itertools
from contextlib import AsyncExitStack

from bench.direct_clients import Answer
from bench.fair_shares.attacks.effort import Effort
from bench.fair_shares.client import TUS
from bench.fair_shares.pdfs import pages_pdf, slow_pdf
from bench.fair_shares.victims import announce, announcement, grpc_stub

_names = itertools.count()


async def queue_tasks(effort: Effort) -> None:
    """Up to 200 tasks of scans without text, each of 200 pages that are slow to draw."""
    content = [slow_pdf(200, 24) for _ in range(4)]

    async def submit(number: int) -> Answer | str:
        await effort.merchant.submit_task(content[number % len(content)])
        if next(_names) >= 200:
            await asyncio.sleep(3600)
        return "202"

    effort.in_force_after(5.0)
    await effort.keep_up("task", 8, submit)


async def flood_grpc(effort: Effort) -> None:
    """2,000 calls at once over 20 connections, each again as soon as it is answered."""
    async with AsyncExitStack() as stack:
        stubs = [await stack.enter_async_context(grpc_stub(effort.target)) for _ in range(20)]

        async def call(number: int) -> Answer | str:
            await announce(stubs[number % len(stubs)], effort.merchant, announcement(f"evil {next(_names)}"))
            return "OK"

        effort.in_force_after(3.0)
        await effort.keep_up("call", 2_000, call)


async def exhaust_database(effort: Effort) -> None:
    """Lists, searches and histories of its own large jobs, and questions about uploads, which no rate limits."""
    job = await effort.merchant.make_job(pages_pdf(1_000))
    upload = await effort.merchant.begin_upload(1_000)
    slowest = (
        "/api/v1/jobs?limit=200&q=a&sort=source_file", f"/api/v1/jobs/{job}/pages?limit=200",
        f"/api/v1/jobs/{job}/timeline", f"/api/v1/jobs/{job}",
        "/api/v1/etl/tasks?limit=200", "/api/v1/etl/rules?limit=200",
    )  # fmt: skip

    async def look(number: int) -> Answer | str:
        return await effort.merchant.get(slowest[number % len(slowest)])

    async def ask_offset(number: int) -> Answer | str:  # noqa: ARG001  all do the same
        return await effort.merchant.ask("HEAD", upload, headers=TUS)

    effort.in_force_after(2.0)
    async with asyncio.TaskGroup() as group:
        group.create_task(effort.keep_up("query", 32, look))
        group.create_task(effort.keep_up("upload HEAD", 32, ask_offset))
