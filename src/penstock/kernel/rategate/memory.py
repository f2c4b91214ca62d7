"""What one process knows of one key: enough to go on alone, and to heal a Redis that has forgotten.

Invariant: a prefetched token is spent here before it lapses there, because its time is counted from before
the call that fetched it.
"""

import asyncio
from collections import deque
from typing import Any

from penstock.kernel.rategate.local import LocalBucket
from penstock.kernel.rategate.policy import SECOND, RatePolicy
from penstock.kernel.rategate.script import Reply, Window


class Memory:
    """Times are of the process's monotonic clock, in seconds."""

    def __init__(self) -> None:
        self.fetching = asyncio.Lock()  # one prefetch at a time
        self.cool_until = 0.0
        self.is_cooling_unsent = False
        self.local: LocalBucket | None = None
        self._windows: dict[str, Window] = {}
        self.rate: float | None = None
        self._lease: str | None = None
        self._leased = 0
        self._lease_ends = 0.0
        self._granted_at = 0.0
        self._pace: deque[float] = deque(maxlen=100)  # permits per second between two grants of ours

    def learn(self, reply: Reply, now: float) -> None:
        self.rate, self._windows = reply.rate, reply.windows
        if reply.cool:
            self.cool_until = max(self.cool_until, now + reply.cool / SECOND)

    def cool(self, now: float, seconds: float) -> None:
        self.cool_until = max(self.cool_until, now + seconds)

    # Prefetched tokens ---------------------------------------------------------------------------------------
    def hold_lease(self, lease: str, amount: int, ends: float) -> None:
        self._lease, self._leased, self._lease_ends = lease, amount, ends

    def spend_leased(self, cost: int, now: float) -> bool:
        if self._leased < cost or now >= self._lease_ends or now < self.cool_until:
            return False
        self._leased -= cost
        return True

    def end_lease(self) -> dict[str, Any] | None:
        """Hand the lease back: from here on nobody spends it."""
        if self._lease is None:
            return None
        ended = {"lease": self._lease, "unspent": self._leased}
        self._lease, self._leased = None, 0
        return ended

    # Healing Redis -------------------------------------------------------------------------------------------
    def hints(self, now: float, *, is_missing: bool) -> dict[str, Any]:
        """A flushed server gets back the cooling, the rate and what is left of the quotas."""
        known: dict[str, Any] = {}
        if self._windows:
            known["windows"] = {name: {"left": w.left, "ends": w.ends} for name, w in self._windows.items()}
        if (is_missing or self.is_cooling_unsent) and self.cool_until > now:
            known["cool"] = round((self.cool_until - now) * SECOND)
        if is_missing and self.rate is not None:
            known["rate"] = self.rate
        self.is_cooling_unsent = False
        return known

    # Alone ---------------------------------------------------------------------------------------------------
    def observe_grant(self, cost: int, now: float) -> None:
        if self._granted_at:
            self._pace.append(cost / max(now - self._granted_at, 1e-6))
        self._granted_at = now

    def local_rate(self, policy: RatePolicy, share: float) -> float:
        """No more than our share of the promise, nor than what we were slow enough to have been given."""
        paces = sorted(self._pace)
        slow = paces[len(paces) // 10] if paces else policy.rate
        floor = min(policy.min_rate, policy.rate) * share
        return max(floor, min(policy.rate * share, slow))

    def quota_wait(self, cost: int, wall: float) -> float:
        """Seconds until the last of the quotas that cannot bear `cost` ends; 0 when all can."""
        return max((w.ends / SECOND - wall for w in self._live(wall) if w.left < cost), default=0.0)

    def spend_quota(self, cost: int, wall: float) -> None:
        for window in self._live(wall):
            window.left -= cost

    def quotas(self, wall: float) -> dict[str, float]:
        return {name: window.left for name, window in self._windows.items() if window.ends > wall * SECOND}

    def _live(self, wall: float) -> list[Window]:
        return [window for window in self._windows.values() if window.ends > wall * SECOND]
