"""Ends work whose client has left: a place in the sandbox is for those who still wait for an answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

Value = TypeVar("Value")


async def while_client_waits(request: Request, work: Coroutine[Any, Any, Value], *, grace_seconds: float = 0) -> Value:
    """Runs `work` to its end, or cancels it when the client hangs up and raises ClientDisconnect.

    With a grace, work goes on for so long after the client has left: one that lost its connection asks again, and
    finds it done.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and grace_seconds:
            await asyncio.wait({working}, timeout=grace_seconds)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
