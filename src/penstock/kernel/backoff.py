"""How long to wait before trying again, and waiting that ends early when we are told to stop."""

import asyncio
import random


def exponential(attempt: int, *, first: float, most: float) -> float:
    """Doubles from `first` up to `most`, with 0–25 % of jitter so that a crowd spreads out."""
    span = min(most, first * 2.0 ** min(attempt - 1, 30))
    return span * (1 + random.random() / 4)  # noqa: S311  spreads load, guards nothing


def jitter() -> float:
    """A share of 5-15 % to add to a wait that many may share."""
    return random.uniform(0.05, 0.15)  # noqa: S311


async def pause(stop: asyncio.Event, seconds: float) -> bool:
    """Wait; True if `stop` was set meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
