"""The gate of one process alone, while Redis is away: evenly spaced slots, no burst, a random first one.

Invariant: all processes together stay under the promise as long as there are no more of them than the
share supposes.
"""

import random

from penstock.kernel.rategate.policy import Outcome, RatePolicy, Signal


class LocalBucket:
    """Times are of the process's monotonic clock, in seconds."""

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._floor = rate / 16
        # All processes lose Redis in the same moment: without this they would all start in step.
        self._next = now + random.random() / rate  # noqa: S311

    def next_slot(self, now: float, cool_until: float) -> float:
        return max(self._next, now, cool_until)

    def take(self, slot: float, cost: int) -> None:
        self._next = slot + cost / self.rate

    def note(self, signal: Signal, policy: RatePolicy) -> None:
        if signal.outcome is not Outcome.OK:
            self.rate = max(self.rate / policy.demote, self._floor)
