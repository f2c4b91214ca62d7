"""The promise to a provider: a permit before each request, and what each answer says about limits told to the gate.

The key is the endpoint of a source, or the whole source where endpoints share a limit, and the credential where the
provider counts by it. When a quota runs low the last of it is for HARVEST: BACKFILL stops first, then UPDATE.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from penstock.harvest.calling.answers import Answer, Hints
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.spec import Operation, RateLimit, Sections, Spec
from penstock.kernel import error_codes
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import Allow, Estimate, Outcome, RateGate, RatePolicy, Signal

QUOTA_RESERVED = "QUOTA_RESERVED"
CONCURRENCY = "CONCURRENCY"
_FRESH = 1.0  # seconds that an estimate is good for
_RESERVED_FOR = 60.0  # seconds after which a reserved quota is looked at again
_RESERVES = {Operation.HARVEST: 0, Operation.UPDATE: 1, Operation.BACKFILL: 2}  # times `quotaReserve`


@dataclass(frozen=True, slots=True)
class Lane:
    """One key of the gate and its promise."""

    key: str
    endpoint: str
    policy: RatePolicy
    limit: RateLimit


@dataclass(slots=True)
class _Learned:
    """What this process was told by headers about one key."""

    rate: float | None = None
    limit: int | None = None
    remaining: int | None = None
    reset: datetime | None = None


def rate_key(spec: Spec, sections: Sections) -> str:
    """Readable, because it is shown: `crossref/works#plus`."""
    limit = sections.rate_limit
    key = spec.provenance_code
    if not limit.shared_by_endpoints:
        key += f"/{endpoint_of(spec, sections)}"
    if limit.by_credential and sections.auth.credential_ref:
        key += f"#{sections.auth.credential_ref}"
    return key


def endpoint_of(spec: Spec, sections: Sections) -> str:
    """The sections of a detail endpoint are a part of the spec, not a spec of their own."""
    is_detail = spec.detail_endpoint is not None and not isinstance(sections, Spec)
    return spec.detail_endpoint or "" if is_detail else spec.endpoint_name


def policy_of(limit: RateLimit) -> RatePolicy:
    rate = limit.qps * limit.pace
    return RatePolicy(
        rate=rate,
        burst=max(limit.burst, limit.cost),
        warmup=limit.warmup.total_seconds(),
        demote=limit.demote_rate,
        min_rate=min(limit.min_rate, rate),
        cool_down=max(limit.cool_down.total_seconds(), 0.001),
        quota_hourly=limit.quota_hourly,
        quota_daily=limit.quota_daily,
        quota_margin=limit.quota_margin,
    )


class Pacer:
    """One per process, over its rate gate."""

    def __init__(self, gate: RateGate, settings: HarvestSettings, clock: Clock | None = None) -> None:
        self._gate = gate
        self.patience = settings.permit_seconds.total_seconds()
        self._clock: Clock = clock or SystemClock()
        self._learned: defaultdict[str, _Learned] = defaultdict(_Learned)
        self._estimates: dict[tuple[str, float], tuple[float, Estimate]] = {}
        self._connections: dict[tuple[str, int], asyncio.Semaphore] = {}

    def lane(self, spec: Spec, sections: Sections) -> Lane:
        """With the rate that the provider's headers allow, where that is less than ours."""
        limit, key = sections.rate_limit, rate_key(spec, sections)
        policy, told = policy_of(limit), self._learned[key].rate
        if limit.header_adaptive and told is not None and told * limit.pace < policy.rate:
            slower = told * limit.pace
            policy = replace(policy, rate=slower, min_rate=min(policy.min_rate, slower))
        return Lane(key, endpoint_of(spec, sections), policy, limit)

    async def permit(self, lane: Lane, operation: Operation, task: str) -> Allow:
        """RATE_LIMITED with `reason` and `retry_after` when it would take longer than the settings allow."""
        await self._check_reserve(lane, operation)
        return await self._gate.permit(
            lane.key, lane.policy, cost=lane.limit.cost, deadline=self.patience, task=task or None
        )

    def connection(self, spec: Spec, sections: Sections) -> AbstractAsyncContextManager[None]:
        """One of the few that a provider allows at once, of this process."""
        most = sections.rate_limit.concurrency
        return nullcontext() if most is None else self._connected(spec.provenance_code, most)

    @asynccontextmanager
    async def _connected(self, source: str, most: int) -> AsyncIterator[None]:
        turns = self._connections.setdefault((source, most), asyncio.Semaphore(most))
        try:
            async with asyncio.timeout(self.patience):
                await turns.acquire()
        except TimeoutError:
            details = {"key": source, "reason": CONCURRENCY, "retry_after": self.patience}
            raise PenstockError(error_codes.RATE_LIMITED, **details) from None
        try:
            yield
        finally:
            turns.release()

    async def feedback(self, lane: Lane, outcome: Outcome, hints: Hints) -> None:
        """What one answer says. `Retry-After` is always obeyed, the other headers unless the source says no."""
        signal = Signal(outcome, retry_after=hints.retry_after)
        if lane.limit.header_adaptive:
            self._learn(lane.key, hints)
            signal = self._with_quota(signal, hints)
        await self._gate.feedback(lane.key, lane.policy, signal)

    async def estimate(self, spec: Spec, horizon: timedelta, sections: Sections | None = None) -> Estimate:
        """What a planner may count on within `horizon`."""
        return await self._estimate(self.lane(spec, sections or spec), horizon.total_seconds())

    async def quota_left(self, lane: Lane) -> float | None:
        """The share of the scarcest quota that is left; None: nothing is counted."""
        limit, told = lane.limit, self._learned[lane.key]
        known = {"hour": lane.policy.usable(limit.quota_hourly), "day": lane.policy.usable(limit.quota_daily)}
        shares = []
        if any(known.values()):
            left = (await self._estimate(lane, 0.0)).quotas
            shares = [left[name] / whole for name, whole in known.items() if whole and name in left]
        if told.limit and told.remaining is not None and told.reset is not None and told.reset > self._clock.now():
            shares.append(told.remaining / told.limit)
        return min(shares, default=None)

    async def _check_reserve(self, lane: Lane, operation: Operation) -> None:
        reserve = lane.limit.quota_reserve * _RESERVES[operation]
        if not reserve:
            return
        left = await self.quota_left(lane)
        if left is not None and left < reserve:
            details = {"key": lane.key, "reason": QUOTA_RESERVED, "retry_after": _RESERVED_FOR}
            raise PenstockError(error_codes.RATE_LIMITED, **details, left=round(left, 3))

    async def _estimate(self, lane: Lane, horizon: float) -> Estimate:
        now, name = self._clock.monotonic(), (lane.key, horizon)
        kept = self._estimates.get(name)
        if kept is not None and kept[0] > now:
            return kept[1]
        found = await self._gate.estimate(lane.key, lane.policy, horizon)
        if len(self._estimates) > 1_000:
            self._estimates.clear()
        self._estimates[name] = (now + _FRESH, found)
        return found

    def _learn(self, key: str, hints: Hints) -> None:
        told = self._learned[key]
        if hints.rate is not None:
            told.rate = hints.rate
        if hints.remaining is not None and self._is_quota(hints):
            told.remaining, told.limit, told.reset = hints.remaining, hints.limit, hints.reset

    def _is_quota(self, hints: Hints) -> bool:
        """A window that ends sooner than we would wait is a matter of pace, not of a budget."""
        return hints.reset is not None and (hints.reset - self._clock.now()).total_seconds() > self.patience

    def _with_quota(self, signal: Signal, hints: Hints) -> Signal:
        if hints.remaining is None or signal.retry_after is not None:
            return signal
        if hints.reset is None or self._is_quota(hints):
            return replace(signal, limit_remaining=hints.remaining, window_reset=hints.reset)
        if hints.remaining > 0:
            return replace(signal, limit_remaining=hints.remaining)
        return replace(signal, retry_after=max(0.0, (hints.reset - self._clock.now()).total_seconds()))


def outcome_of(answer: Answer) -> Outcome:
    if answer.says_too_fast:
        return Outcome.HTTP_429
    return Outcome.SERVER_ERROR if answer.status >= 500 else Outcome.OK
