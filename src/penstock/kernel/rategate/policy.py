"""What a caller may ask of the gate, and what it may answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

SECOND = 1_000_000  # the script counts in microseconds


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """The promise to one upstream. Rates are permits per second, times are seconds.

    There is no switch for `Retry-After`: it is always respected.
    """

    rate: float = 1.0
    burst: int = 1
    warmup: float = 0.0  # seconds from the first use until the full rate is reached
    demote: float = 2.0  # the rate is divided by this on 429 and 5xx
    min_rate: float = 0.1
    cool_down: float = 10.0  # the rate grows again by `raise_by` once in this time
    raise_by: float | None = None  # None: a tenth of the rate
    volley: float = 1.0  # failures within this time of a demotion are the same news
    quantum: int = 10  # places in the line that one task may hold
    prefetch: int = 1  # tokens fetched by one call; 1 is no prefetching
    lease_ttl: float = 1.0  # unused prefetched tokens lapse after this
    quota_hourly: int | None = None
    quota_daily: int | None = None
    quota_margin: float = 0.1  # share of a quota that is never touched

    def __post_init__(self) -> None:
        wrong = [name for name, is_right in self._rules() if not is_right]
        if wrong:
            raise ValueError(f"rate policy: {', '.join(wrong)} cannot hold in {self}")

    def _rules(self) -> tuple[tuple[str, bool], ...]:
        return (
            ("rate > 0", 0 < self.rate < float("inf")),
            ("burst >= 1", self.burst >= 1),
            ("warmup >= 0", self.warmup >= 0),
            ("demote > 1", self.demote > 1),
            ("min_rate > 0", self.min_rate > 0),
            ("cool_down > 0", self.cool_down > 0),
            ("raise_by > 0", self.raise_by is None or self.raise_by > 0),
            ("volley >= 0", self.volley >= 0),
            ("quantum >= 1", self.quantum >= 1),
            ("1 <= prefetch <= burst", 1 <= self.prefetch <= self.burst),
            ("lease_ttl > 0", self.lease_ttl > 0),
            ("0 <= quota_margin < 1", 0 <= self.quota_margin < 1),
        )

    def usable(self, quota: int | None) -> int | None:
        return None if quota is None else int(quota * (1 - self.quota_margin))

    def packed(self) -> bytes:
        """As the script reads it."""
        fields: dict[str, Any] = {
            "rate": self.rate,
            "burst": self.burst,
            "demote": self.demote,
            "min_rate": self.min_rate,
            "raise": self.rate / 10 if self.raise_by is None else self.raise_by,
            "quantum": self.quantum,
            "prefetch": self.prefetch,
            "hourly": self.usable(self.quota_hourly),
            "daily": self.usable(self.quota_daily),
        }
        for name in ("warmup", "cool_down", "volley", "lease_ttl"):
            fields[name] = round(getattr(self, name) * SECOND)
        return msgspec.msgpack.encode({name: value for name, value in fields.items() if value is not None})


class Reason(StrEnum):
    """Why the gate says no."""

    OVER_DEADLINE = "over_deadline"  # the turn would come, but later than the caller can wait
    COOLING_DOWN = "cooling_down"  # the upstream has asked for silence
    QUOTA_EXHAUSTED = "quota_exhausted"  # nothing is left in this hour or day


@dataclass(frozen=True, slots=True)
class Allow:
    """Send now."""

    rate: float  # permits per second that the gate holds the key to at present
    waited: float = 0.0
    at: float | None = None  # the moment by Redis's clock; the promise is kept by it. None: granted here
    is_local: bool = False  # Redis is away: granted by this process alone


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the line; `epoch` tells lines apart, so that a place of a lost line is not honoured."""

    cost: int
    task: str | None
    place: int | None = None
    epoch: int | None = None
    local_slot: float | None = None


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Not yet. Sleep until `at`, then `redeem` this: what has happened meanwhile is taken into account."""

    at: datetime
    seconds: float
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Reject:
    """Not within the deadline. Worth another try after `retry_after` seconds."""

    reason: Reason
    retry_after: float


Decision = Allow | WaitUntil | Reject


class Outcome(StrEnum):
    """How the upstream answered, as far as its load is concerned."""

    OK = "OK"
    HTTP_429 = "HTTP_429"
    SERVER_ERROR = "SERVER_ERROR"  # 5xx that may pass


@dataclass(frozen=True, slots=True)
class Signal:
    """What one response says about limits. Header values go in as they came, in seconds and UTC."""

    outcome: Outcome = Outcome.OK
    retry_after: float | None = None
    limit_remaining: int | None = None
    window_reset: datetime | None = None

    def __post_init__(self) -> None:
        if self.retry_after is not None and not 0 <= self.retry_after < float("inf"):
            raise ValueError(f"retry_after must be a number of seconds, not {self.retry_after}")
        if self.window_reset is not None and self.window_reset.tzinfo is None:
            raise ValueError("window_reset needs a time zone")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a planner may count on."""

    permits: int  # within the horizon, beyond what is promised to others
    concurrency: int  # requests in flight that use the rate up, given how long one takes
    rate: float
    opens_after: float  # seconds of cooling down still to come
    is_local: bool = False
    quotas: Mapping[str, float] = field(default_factory=dict)  # "hour", "day": what is left of them, if counted
