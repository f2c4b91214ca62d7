"""Circuit breaker: after repeated failures, calls to a key stop for a while, in every process at once.

Closed → open on N failures in a row or on a share of failures in a window; open → half-open after a pause;
half-open lets a few probes through, closes when enough succeed, opens again when one fails. News of a call
that was admitted before the last change is ignored. The caller chooses which exceptions are faults of the
transport; any other outcome proves that it works. Without Redis each process judges for itself.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

from penstock.kernel import error_codes
from penstock.kernel.backoff import jitter
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.errors import ErrorCode, PenstockError
from penstock.kernel.redis import Keys, Redis, RedisAway, running_script

_CALL_SECONDS = 1.0
_AWAY_SECONDS = 1.0
_LOCAL = -1  # the generation of an admission that Redis knows nothing of


class Circuit(StrEnum):
    """Whether calls flow."""

    CLOSED = "closed"  # all is well, calls go through
    OPEN = "open"  # calls are refused until the pause is over
    HALF_OPEN = "half_open"  # a few probes find out


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When to stop and when to try again. Times are seconds."""

    failures: int = 5  # in a row
    ratio: float = 0.5  # or this share of at least `calls` calls within `window`
    calls: int = 20
    window: float = 60.0
    pause: float = 30.0
    probes: int = 1  # at once, while half-open
    successes: int = 2  # that close it again
    probe_time: float = 60.0  # a probe that has not reported by then is lost

    def __post_init__(self) -> None:
        counts = min(self.failures, self.calls, self.probes, self.successes)
        times = min(self.window, self.pause, self.probe_time)
        if counts < 1 or times <= 0 or not 0 < self.ratio <= 1:
            raise ValueError(f"a breaker cannot work with {self}")


@dataclass(frozen=True, slots=True)
class Admission:
    """Leave to make one call; its outcome is to be recorded."""

    key: str
    policy: BreakerPolicy
    generation: int


@dataclass(frozen=True, slots=True)
class CircuitView:
    """For health pages."""

    state: Circuit
    reopens_after: float = 0.0
    is_local: bool = False


@dataclass(slots=True)
class _Alone:
    """What this process has seen of a key while Redis was away."""

    failures: int = 0
    open_until: float = 0.0


class Breaker:
    """One per process. `is_simulated` makes the script use our clock instead of Redis's."""

    def __init__(self, redis: Redis, keys: Keys, *, clock: Clock | None = None, is_simulated: bool = False) -> None:
        self._keys = keys
        self._clock: Clock = clock or SystemClock()
        self._is_simulated = is_simulated
        text = resources.files(__package__).joinpath("breaker.lua").read_text("utf-8")
        self._script = redis.register_script(text)
        self._alone: dict[str, _Alone] = {}
        self._ask_again_at = 0.0

    @asynccontextmanager
    async def guard(
        self,
        key: str,
        policy: BreakerPolicy,
        *,
        faults: tuple[type[BaseException], ...],
        code: ErrorCode = error_codes.CIRCUIT_OPEN,
    ) -> AsyncIterator[None]:
        """Run the block unless the circuit is open. Only `faults` count against the key."""
        admission = await self.admit(key, policy, code=code)
        try:
            yield
        except faults:
            await self.record_failure(admission)
            raise
        except asyncio.CancelledError:
            await asyncio.shield(self._run("forget", admission))  # we shall never know
            raise
        except BaseException:
            await self.record_success(admission)
            raise
        await self.record_success(admission)

    async def admit(self, key: str, policy: BreakerPolicy, *, code: ErrorCode = error_codes.CIRCUIT_OPEN) -> Admission:
        """Raises `code` with `retry_after` while the circuit is open."""
        answer = await self._run("admit", Admission(key, policy, 0))
        if answer is None:
            alone = self._alone.setdefault(key, _Alone())
            wait, generation = alone.open_until - self._clock.monotonic(), _LOCAL
            may_go = wait <= 0
            if may_go and alone.open_until:
                alone.open_until = self._clock.monotonic() + policy.probe_time  # one probe, then the next
        else:
            _, wait, generation, may_go = answer
        if not may_go:
            raise PenstockError(code, key=key, retry_after=round(wait, 3))
        return Admission(key, policy, generation)

    async def record_success(self, admission: Admission) -> None:
        if admission.generation == _LOCAL:
            self._alone.pop(admission.key, None)
        else:
            await self._run("success", admission)

    async def record_failure(self, admission: Admission) -> None:
        if admission.generation == _LOCAL or await self._run("failure", admission) is None:
            alone = self._alone.setdefault(admission.key, _Alone())
            alone.failures += 1
            if alone.failures >= admission.policy.failures:
                alone.open_until = self._clock.monotonic() + admission.policy.pause

    async def trip(self, key: str, policy: BreakerPolicy) -> None:
        """Open it at once: the caller knows that no call can succeed."""
        if await self._run("trip", Admission(key, policy, 0)) is None:
            self._alone.setdefault(key, _Alone()).open_until = self._clock.monotonic() + policy.pause

    async def look(self, key: str, policy: BreakerPolicy) -> CircuitView:
        """The state, without changing it."""
        answer = await self._run("read", Admission(key, policy, 0))
        if answer is not None:
            return CircuitView(answer[0], answer[1])
        alone = self._alone.get(key, _Alone())
        wait = max(0.0, alone.open_until - self._clock.monotonic())
        return CircuitView(Circuit.OPEN if wait else Circuit.CLOSED, wait, is_local=True)

    async def _run(self, operation: str, admission: Admission) -> tuple[Circuit, float, int, bool] | None:
        """None: Redis is away, and is not asked again for a moment."""
        policy = admission.policy
        if self._clock.monotonic() < self._ask_again_at:
            return None
        pause = policy.pause * (1 + jitter())
        now = round(self._clock.now().timestamp() * 1000) if self._is_simulated else 0
        arguments: list[str | int | float] = [operation, now, admission.generation]
        arguments += [policy.failures, policy.ratio, policy.calls, round(policy.window * 1000), round(pause * 1000)]
        arguments += [policy.probes, policy.successes, round(policy.probe_time * 1000)]
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                with running_script():
                    answer = await self._script([self._keys.circuit(admission.key)], arguments)
        except RedisAway:
            self._ask_again_at = self._clock.monotonic() + _AWAY_SECONDS
            return None
        state, wait, generation, may_go = answer
        return Circuit(state.decode()), int(wait) / 1000, int(generation), bool(may_go)
