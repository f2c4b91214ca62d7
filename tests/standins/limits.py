"""How services count requests: so many in any stretch of time, or a bucket that fills steadily."""

from collections import deque
from dataclasses import dataclass, field

SLACK = 0.02  # what the way of a request may add or take: a client that keeps to the limit exactly is not punished


@dataclass(slots=True)
class Stretch:
    """At most `limit` in any `seconds`; what was refused does not count."""

    limit: int
    seconds: float = 1.0
    _taken: deque[float] = field(default_factory=deque, repr=False)

    def admits(self, moment: float) -> bool:
        while self._taken and self._taken[0] <= moment - self.seconds + SLACK:
            self._taken.popleft()
        if len(self._taken) >= self.limit:
            return False
        self._taken.append(moment)
        return True


@dataclass(slots=True)
class Bucket:
    """`rate` a second on the long run, `burst` at once."""

    rate: float
    burst: int
    _level: float | None = None
    _at: float = 0.0

    def admits(self, moment: float) -> bool:
        level = float(self.burst) if self._level is None else self._level + (moment - self._at) * self.rate
        level = min(level, float(self.burst))
        self._at = moment
        allowed = level >= 1 - SLACK
        self._level = level - 1 if allowed else level
        return allowed
