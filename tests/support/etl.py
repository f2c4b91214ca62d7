"""ETL with everything real: servers, an object store, a worker with ARQ, sandbox processes, the application."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from penstock.api.app import create_app
from penstock.bootstrap import Parts, load_settings, started
from penstock.extraction.queries import TaskView, look
from penstock.extraction.submit import Submission, submit
from penstock.extraction.sweep import sweep
from penstock.kernel.identity import Caller, Role
from penstock.worker import run_worker
from tests.support.edge import token

ALICE = Caller("alice", "m-1", Role.UPLOADER)


@dataclass
class EtlPlace:
    """One process that serves and works. `worker` runs unless it was asked not to."""

    parts: Parts
    http: httpx.AsyncClient

    async def submit(self, data: bytes, name: str = "a.pdf", **more: Any) -> int:
        key = f"inbox/{ALICE.merchant_id}/{name}"
        await self.parts.store.put(key, data)
        return int((await submit(self.parts.etl, Submission(ALICE, object_key=key, **more)))["task_id"])

    async def ended(self, task_id: int, seconds: float = 60) -> dict[str, Any]:
        """The row, once the task has ended; what was lost meanwhile is swept up."""

        async def over() -> dict[str, Any] | None:
            await sweep(self.parts.etl)
            view = await self.look(task_id)
            return dict(view.row) if view.state.is_over and view.row else None

        return await until(over, seconds, f"task {task_id} has ended")

    async def look(self, task_id: int) -> TaskView:
        return await look(self.parts.etl, task_id, ALICE)

    async def markdown(self, row: dict[str, Any]) -> str:
        return (await self.parts.store.get(row["metadata"]["artifacts"]["markdown_s3_key"])).decode()


async def until(ask: Callable[[], Awaitable[Any]], seconds: float, what: str | Callable[[], str]) -> Any:
    """The first answer that is not empty. `what` was waited for is asked when it has not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := await ask():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what if isinstance(what, str) else what()}")


@asynccontextmanager
async def etl_place(*, works: bool = True) -> AsyncIterator[EtlPlace]:
    """Settings come from the environment (fixture `environment`)."""
    async with started(load_settings(), role="worker") as parts:
        stop = asyncio.Event()
        worker = asyncio.create_task(run_worker(parts, stop)) if works else None
        transport = httpx.ASGITransport(create_app(parts))
        headers = {"Authorization": f"Bearer {token(Role.UPLOADER, ALICE.merchant_id, seconds=600)}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://etl.test", headers=headers) as http:
            try:
                yield EtlPlace(parts, http)
            finally:
                stop.set()
                if worker is not None:
                    await worker
