"""Times of one operation again and again, at a steady pace.

A client that waits for its answer asks less often while the server stands still, and so would miss the very time that
is looked for. Each slow answer therefore stands also for the requests that would have been sent meanwhile, at the pace
of the others, with the time that each would have waited (the usual correction for coordinated omission).
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.direct_clients import percentile
from bench.fair_shares.victims import Victim

PACE = 0.25  # seconds from one sample to the next, at least
LONGEST = 20.0  # seconds; an answer that takes longer is not waited for, and counts as this long
ENOUGH = 100


@dataclass
class Series:
    """What was measured of one operation."""

    taken: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def usual(self) -> float:
        """Seconds between two samples when nothing is in the way."""
        return max(PACE, percentile(self.taken, 0.5))

    def ms(self, share: float, pace: float) -> float:
        """With the requests that a client of this pace would have sent while it waited."""
        corrected = [each - late * pace for each in self.taken for late in range(max(1, math.ceil(each / pace)))]
        return percentile(corrected, share) * 1000


async def sample(victims: Sequence[Victim], seconds: float) -> list[Series]:
    """Every operation in turn until there are enough samples of each or the time is over; at least one of each."""
    found = [Series() for _ in victims]
    until = time.monotonic() + seconds
    while len(found[-1].taken) < ENOUGH:
        for victim, series in zip(victims, found, strict=True):
            begun = time.monotonic()
            series.taken.append(await _once(victim, series))
            await asyncio.sleep(max(0.0, PACE / len(victims) - (time.monotonic() - begun)))
        if time.monotonic() > until:
            break
    return found


async def _once(victim: Victim, series: Series) -> float:
    try:
        async with asyncio.timeout(LONGEST):
            return await victim.once()
    except TimeoutError:
        series.failures.append("timeout")
    except (RuntimeError, OSError, asyncio.IncompleteReadError) as failure:  # a refusal is as bad as no answer
        series.failures.append(str(failure)[:200])
    return LONGEST
