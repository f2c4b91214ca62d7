"""The rate gate: many processes, one promise to each upstream.

The promise. In every stretch of T seconds, no more than `burst + rate * T` permits are granted for a key, by
all processes together, by Redis's clock, and however late, dead or restarted anybody is.

The bucket. One Redis key holds the state, one Lua script (`gate.lua`) makes every change. `level` is what can
be spent now; it grows by the present rate and is capped by the burst. A permit is given only while the level
bears its cost, so the promise does not depend on how well waiters behave.

The line. Who finds too little gets a place in a line instead of being told to try again: `taken` counts the
tokens ever promised to places, `passed` how far the line has been served. A place is ready when the level
bears all that is unserved up to it; hence the moments of `WaitUntil` are one slot apart, first come first
served, and nobody wakes in a herd. A newcomer may only take what the line leaves. At its moment the waiter
redeems its place, and is told to wait on if the rate was cut or a `Retry-After` came meanwhile. Places are
not stored: a waiter that dies leaves a slot unused, its tokens stay in the bucket, and once the bucket is
full the next to ask gets them. A task holds at most `quantum` places, so a newcomer never waits behind more
than that many permits of any one task.

Leases. With `prefetch` a call on an idle line brings home more tokens than asked for. Until they are reported
spent, given back, or lapse, they take up room in the bucket: level and leases together never exceed the
burst. Their price: up to `lease_ttl` a holder may not know of a cooling that another process was told of.

Adapting. 429 and 5xx divide the rate by `demote` (once per volley); each `cool_down` adds `raise_by`, up to
the configured rate. `Retry-After` empties the bucket and stops its growth until the time is over, plus
jitter. Remaining/Reset headers replace our own count of the hour or the day; without them we count down from
the configured quota less its margin.

Jitter of 5-15 % is added to coolings and to waits. On a place in the line it is at most what the bucket can
store meanwhile, because places are apart already and more would waste tokens.

Redis lost. Each process goes on alone with its share of the rate, or the slowest tenth of what it has been
getting, if less; it asks Redis again about once a second, one call at a time. A restarted Redis may have
forgotten its last second, so a bucket with another run id starts empty, with a new line, after a pause in
which everybody has left the local gate. A flushed Redis knows nothing: `_age_of_redis` decides how much a
new bucket may hold, and callers bring back what they remember of coolings, rate and quotas.
docs/adr/0005-rate-gate.md says why.
"""

import asyncio
import math
import uuid
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel import error_codes
from penstock.kernel.backoff import jitter
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate.local import LocalBucket
from penstock.kernel.rategate.memory import Memory
from penstock.kernel.rategate.policy import (
    SECOND,
    Allow,
    Decision,
    Estimate,
    RatePolicy,
    Reason,
    Reject,
    Signal,
    Ticket,
    WaitUntil,
)
from penstock.kernel.rategate.script import Reply, Script
from penstock.kernel.redis import Keys, Redis, RedisAway
from penstock.kernel.settings import SettingsGroup

_LEAD = 0.002  # a waiter redeems this early and sleeps the rest, so that a round trip does not cost its slot
_ORIGIN_TTL = timedelta(days=30)
_CALLS_AT_ONCE = 16  # of one process; more would only queue inside the connection pool

_packed = lru_cache(maxsize=512)(RatePolicy.packed)


class GateSettings(SettingsGroup):
    """How a process behaves while Redis is away."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_GATE_")

    local_share: float = Field(
        default=1 / 16, gt=0, le=1, description="Share of a rate that one process uses while Redis is away"
    )
    call_seconds: float = Field(default=1.0, gt=0, description="Redis counts as away when it takes longer than this")
    retry_seconds: float = Field(default=1.0, gt=0, description="How often to ask whether Redis is back")


@dataclass(frozen=True, slots=True)
class _Turn:
    ticket: Ticket
    deadline: float
    lead: float = 0.0


class RateGate:
    """One per process. `is_simulated` makes the script use our clock instead of Redis's."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        *,
        clock: Clock | None = None,
        settings: GateSettings | None = None,
        is_simulated: bool = False,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._clock: Clock = clock or SystemClock()
        self._settings = settings or GateSettings()
        self._is_simulated = is_simulated
        self._script = Script(redis)
        self._memories: dict[str, Memory] = {}
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()
        self._calls = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._has_met_redis = False
        self._is_local = False
        self._ask_again_at = 0.0

    @property
    def is_local(self) -> bool:
        """Redis was away when last asked."""
        return self._is_local

    async def acquire(
        self, key: str, policy: RatePolicy, *, cost: int = 1, deadline: float = 0.0, task: str | None = None
    ) -> Decision:
        """Ask once. `deadline` is how many seconds the caller would wait."""
        return await self._decide(key, policy, _Turn(Ticket(cost, task), deadline))

    async def redeem(self, key: str, policy: RatePolicy, waited: WaitUntil, *, deadline: float = 0.0) -> Decision:
        """Ask again, at the moment that `acquire` named."""
        return await self._decide(key, policy, _Turn(waited.ticket, deadline))

    async def permit(
        self, key: str, policy: RatePolicy, *, cost: int = 1, deadline: float = 60.0, task: str | None = None
    ) -> Allow:
        """Ask, wait, redeem. Raises RATE_LIMITED with `reason` and `retry_after` when the deadline cannot be met."""
        started = self._clock.monotonic()
        async with self._turn_of(key, policy, task):
            ticket = Ticket(cost, task)
            while True:
                left = max(0.0, deadline - (self._clock.monotonic() - started))
                decision = await self._decide(key, policy, _Turn(ticket, left, _LEAD))
                if isinstance(decision, Allow):
                    return replace(decision, waited=self._clock.monotonic() - started)
                if isinstance(decision, Reject):
                    details = {"key": key, "reason": decision.reason, "retry_after": decision.retry_after}
                    raise PenstockError(error_codes.RATE_LIMITED, **details)
                ticket = decision.ticket
                await self._clock.sleep(max(0.0, decision.seconds - _LEAD))

    async def feedback(self, key: str, policy: RatePolicy, signal: Signal) -> None:
        """Tell what the upstream said. Every response is worth telling; only news costs a call."""
        memory, extra = self._memory(key), jitter()
        if signal == Signal():
            return
        if memory.local is not None:
            memory.local.note(signal, policy)
        if signal.retry_after is not None:
            memory.cool(self._clock.monotonic(), signal.retry_after * (1 + extra))
        ask: dict[str, Any] = {"outcome": signal.outcome.value, "jitter": extra}
        if signal.retry_after is not None:
            ask["retry_after"] = round(signal.retry_after * SECOND)
        if signal.limit_remaining is not None:
            ask["remaining"] = max(0, signal.limit_remaining)
        if signal.window_reset is not None:
            ask["reset"] = round(signal.window_reset.timestamp() * SECOND)
        if await self._call("feedback", key, policy, ask) is None:
            memory.is_cooling_unsent = True

    async def estimate(self, key: str, policy: RatePolicy, horizon: float, *, latency: float = 1.0) -> Estimate:
        """What is there to plan with in the next `horizon` seconds, if one request takes `latency` seconds."""
        memory = self._memory(key)
        reply = await self._call("estimate", key, policy, {"horizon": round(horizon * SECOND)})
        if reply is None:
            rate = self._local_bucket(memory, policy).rate
            closed = max(0.0, memory.cool_until - self._clock.monotonic())
            permits = int(rate * max(0.0, horizon - closed))
        else:
            rate, permits, closed = reply.rate, reply.permits, reply.wait / SECOND
        concurrency = min(permits, max(1, math.ceil(rate * latency)))
        quotas = memory.quotas(self._clock.now().timestamp())
        return Estimate(permits, concurrency, rate, closed, is_local=reply is None, quotas=quotas)

    async def give_back(self, policies: dict[str, RatePolicy]) -> None:
        """Before leaving: prefetched tokens that were not needed go back to the others."""
        for key, policy in policies.items():
            done = self._memory(key).end_lease()
            if done is not None:
                await self._call("give_back", key, policy, {"done": done})

    # Deciding ------------------------------------------------------------------------------------------------
    async def _decide(self, key: str, policy: RatePolicy, turn: _Turn) -> Decision:
        if not 1 <= turn.ticket.cost <= policy.burst:
            raise ValueError(f"cost {turn.ticket.cost} cannot be granted by a bucket of {policy.burst}")
        memory = self._memory(key)
        now = self._clock.monotonic()
        if memory.cool_until - now > turn.deadline:
            return Reject(Reason.COOLING_DOWN, memory.cool_until - now)
        if policy.prefetch == 1 or turn.ticket.place is not None:
            return await self._take(key, policy, turn)
        async with memory.fetching:
            if memory.spend_leased(turn.ticket.cost, self._clock.monotonic()):
                memory.observe_grant(turn.ticket.cost, self._clock.monotonic())
                return Allow(memory.rate or policy.rate)
            return await self._take(key, policy, turn)

    async def _take(self, key: str, policy: RatePolicy, turn: _Turn) -> Decision:
        memory, ticket, asked_at = self._memory(key), turn.ticket, self._clock.monotonic()
        ask: dict[str, Any] = {
            "cost": ticket.cost,
            "deadline": round(turn.deadline * SECOND),
            "lead": round(turn.lead * SECOND),
            "jitter": jitter(),
        }
        if ticket.task is not None:
            ask["task"] = ticket.task
        if ticket.place is not None:
            ask |= {"place": ticket.place, "epoch": ticket.epoch}
        elif policy.prefetch > 1:
            ask |= {"prefetch": policy.prefetch, "lease": uuid.uuid4().hex, "done": memory.end_lease()}
        reply = await self._call("take", key, policy, ask)
        if reply is None:
            return self._decide_locally(memory, policy, turn)
        if reply.leased:
            memory.hold_lease(ask["lease"], reply.leased, asked_at + policy.lease_ttl)
        return await self._read(reply, memory, ticket)

    async def _read(self, reply: Reply, memory: Memory, ticket: Ticket) -> Decision:
        wait = reply.wait / SECOND
        if reply.kind == "wait":
            place = replace(ticket, place=reply.place, epoch=reply.epoch, local_slot=None)
            return WaitUntil(self._clock.now() + timedelta(seconds=wait), wait, place)
        if reply.kind == "reject":
            return Reject(Reason(reply.reason or ""), wait)
        if wait > 0:  # redeemed a little early: the slot itself is kept
            await self._clock.sleep(wait)
        memory.observe_grant(ticket.cost, self._clock.monotonic())
        return Allow(reply.rate, at=reply.at / SECOND)

    def _decide_locally(self, memory: Memory, policy: RatePolicy, turn: _Turn) -> Decision:
        now, wall, ticket = self._clock.monotonic(), self._clock.now(), turn.ticket
        bucket = self._local_bucket(memory, policy)
        slot = ticket.local_slot
        if slot is None or memory.cool_until > max(slot, now):
            closed = memory.quota_wait(ticket.cost, wall.timestamp())
            if closed:
                return Reject(Reason.QUOTA_EXHAUSTED, closed)
            slot = bucket.next_slot(now, memory.cool_until)
            if slot - now > turn.deadline:
                return Reject(Reason.OVER_DEADLINE, slot - now)
            bucket.take(slot, ticket.cost)
            memory.spend_quota(ticket.cost, wall.timestamp())
        if slot <= now + turn.lead:
            return Allow(bucket.rate, is_local=True)
        wait = (slot - now) * (1 + jitter())
        return WaitUntil(wall + timedelta(seconds=wait), wait, Ticket(ticket.cost, ticket.task, local_slot=slot))

    # Redis ---------------------------------------------------------------------------------------------------
    async def _call(self, operation: str, key: str, policy: RatePolicy, ask: dict[str, Any]) -> Reply | None:
        """None: Redis is away. While it is, one caller at a time finds out whether it is back."""
        now = self._clock.monotonic()
        if self._is_local:
            if now < self._ask_again_at:
                return None
            self._ask_again_at = now + self._settings.retry_seconds * (1 + jitter())
        memory = self._memory(key)
        ask = {**ask, "handover": round(self._settings.retry_seconds * 1.5 * SECOND)}
        try:
            async with self._calls, asyncio.timeout(self._settings.call_seconds):
                reply = await self._run(operation, key, policy, ask | memory.hints(now, is_missing=False))
                if reply.kind == "missing":
                    ask |= {"age": await self._age_of_redis(), **memory.hints(now, is_missing=True)}
                    reply = await self._run(operation, key, policy, ask)
        except RedisAway:
            self._go_local()
            return None
        self._come_back()
        memory.learn(reply, self._clock.monotonic())
        return reply

    async def _run(self, operation: str, key: str, policy: RatePolicy, ask: dict[str, Any]) -> Reply:
        if self._is_simulated:
            ask = {**ask, "now": self._microseconds()}
        return await self._script.run(self._keys.rate(key), operation, _packed(policy), ask)

    async def _age_of_redis(self) -> int:
        """For how many microseconds this Redis has certainly forgotten nothing; a new bucket holds no more.

        The first process ever finds no origin and writes the beginning of time: buckets start full. A process
        that has met Redis before and finds none knows that it was flushed, and writes the present.
        """
        name = self._keys.rate_origin()
        now = self._microseconds()
        if not self._is_simulated:
            seconds, micros = await self._redis.time()
            now = seconds * SECOND + micros
        origin = await self._redis.get(name)
        if origin is None:
            await self._redis.set(name, now if self._has_met_redis else 0, ex=_ORIGIN_TTL, nx=True)
            origin = await self._redis.get(name)
        return max(0, now - int(origin or now))

    def _go_local(self) -> None:
        self._is_local = True
        self._ask_again_at = self._clock.monotonic() + self._settings.retry_seconds * (1 + jitter())
        for memory in self._memories.values():
            memory.is_cooling_unsent = True

    def _come_back(self) -> None:
        self._has_met_redis = True
        if self._is_local:
            self._is_local = False
            for memory in self._memories.values():
                memory.local = None

    # Small parts ---------------------------------------------------------------------------------------------
    def _memory(self, key: str) -> Memory:
        if not key:
            raise ValueError("a rate key cannot be empty")
        memory = self._memories.get(key)
        if memory is None:
            memory = self._memories[key] = Memory()
        return memory

    def _local_bucket(self, memory: Memory, policy: RatePolicy) -> LocalBucket:
        if memory.local is None:
            rate = memory.local_rate(policy, self._settings.local_share)
            memory.local = LocalBucket(rate, self._clock.monotonic())
        return memory.local

    def _turn_of(self, key: str, policy: RatePolicy, task: str | None) -> "asyncio.Semaphore | nullcontext[None]":
        """Waiters of one task beyond its quantum queue up here, in order, instead of asking Redis in vain."""
        if task is None:
            return nullcontext()
        return self._turns.setdefault((key, task), asyncio.Semaphore(policy.quantum))

    def _microseconds(self) -> int:
        return round(self._clock.now().timestamp() * SECOND)
