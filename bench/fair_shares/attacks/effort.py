"""How an attack is kept up: so many loops at once, and a count of what became of each call."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import grpc

from bench.direct_clients import Answer
from bench.fair_shares.client import Merchant
from bench.fair_shares.system import Target

EVIL = "m-evil"
_REST = 0.1  # seconds after a refusal: the attack's own processor time is not what is measured
_FAILURES = (OSError, asyncio.IncompleteReadError, RuntimeError, TimeoutError, grpc.aio.AioRpcError)
Call = Callable[[int], Awaitable[Answer | str]]


@dataclass
class Effort:
    """One attack under way."""

    target: Target
    merchant: Merchant = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    in_force: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.merchant = Merchant(self.target, EVIL)

    async def keep_up(self, what: str, at_once: int, call: Call) -> None:
        """So many loops; each calls again when it has its answer. Never returns."""

        async def loop(number: int) -> None:
            while True:
                done = await self.count(what, call(number))
                await asyncio.sleep(0 if done else _REST)

        async with asyncio.TaskGroup() as group:
            for number in range(at_once):
                group.create_task(loop(number))

    async def count(self, what: str, call: Awaitable[Answer | str]) -> bool:
        """Was it done?"""
        self.counts[f"{what} under way"] += 1
        try:
            answer = await call
        except _FAILURES as failure:
            self.counts[f"{what} {_outcome(failure)}"] += 1
            return False
        finally:
            self.counts[f"{what} under way"] -= 1
        said = answer if isinstance(answer, str) else str(answer.status)
        self.counts[f"{what} {said}"] += 1
        return isinstance(answer, str) or answer.status < 400

    def in_force_after(self, seconds: float) -> None:
        """Now it begins; so long after, it has taken hold."""
        asyncio.get_running_loop().call_later(seconds, self.in_force.set)


def _outcome(failure: BaseException) -> str:
    """The status of an answer that was not the expected one, else the kind of failure."""
    said = str(failure).split(" ", 2)
    return said[1].rstrip(":") if said[0] == "answered" else type(failure).__name__
