"""Attacks on what tells of events: webhook deliveries and event streams."""

import asyncio
import contextlib

from bench.direct_clients import Answer
from bench.fair_shares.attacks.effort import Effort
from bench.fair_shares.client import Events
from bench.fair_shares.pdfs import small_pdf
from bench.fair_shares.receivers import Receiver

_ENDPOINTS, _STREAMS = 50, 50


async def hang_deliveries(effort: Effort) -> None:
    """50 endpoints that take calls and never answer, and events for all of them without pause."""
    async with Receiver(answers=False) as receiver:
        for number in range(_ENDPOINTS):
            wanted = {"url": receiver.address(str(number)), "event_types": ["upload.*"]}
            await effort.count("endpoint", effort.merchant.post("/api/v1/webhooks", wanted))

        async def happen(number: int) -> Answer | str:  # noqa: ARG001  all do the same
            await effort.merchant.upload(small_pdf())
            await asyncio.sleep(0.2)
            effort.counts["calls held now"] = receiver.open
            effort.counts["calls received"] = receiver.total
            return "sent"

        effort.in_force_after(4.0)
        await effort.keep_up("event", 2, happen)


async def hold_streams(effort: Effort) -> None:
    """As many streams as are allowed, whose clients do not read; replays from the first event; a flood of events."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(Events(effort.merchant))
        tasks = [await effort.merchant.submit_task(small_pdf()) for _ in range(10)]
        bookmark = (await first.until(b"id: ")).decode()[4:].strip()
        for _ in range(_STREAMS * 4 // 5):
            events = await stack.enter_async_context(Events(effort.merchant, after=bookmark))
            effort.counts[f"stream {events.status}"] += 1
        effort.in_force_after(3.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(effort.keep_up("replay", 12, lambda _: _replay(effort, bookmark)))
            group.create_task(effort.keep_up("retry", len(tasks), lambda number: _again(effort, tasks[number])))


async def _replay(effort: Effort, bookmark: str) -> str:
    async with Events(effort.merchant, after=bookmark) as events:
        if events.status == 200:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await events.until(b"never sent")
        else:
            await asyncio.sleep(0.1)
        return str(events.status)


async def _again(effort: Effort, task: str) -> Answer:
    """A task that has ended runs again and tells of it when it ends."""
    await asyncio.sleep(0.2)
    return await effort.merchant.post(f"{task}/retry", {"from_stage": "postprocess"})
