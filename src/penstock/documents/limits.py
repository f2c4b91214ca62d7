"""How fast a merchant may call. Without Redis there is no common count, and calls pass: a limit is for fairness."""

from functools import partial

import structlog

from penstock.documents.settings import DocumentSettings
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import Allow, RateGate, RatePolicy
from penstock.kernel.redis import RedisTrouble
from penstock.kernel.together import Together

log = structlog.get_logger(__name__)

_MOST = 64  # calls that ask together
_PATIENCE = 0.25  # seconds; a bucket that has just been made needs a moment to hold something


class CallLimits:
    """One per process; the counts are in Redis, so they hold for all processes together.

    Calls of one merchant that come together ask together: for as many permits, there and then, or for none. If there
    are fewer, each asks alone, and some wait or are refused.
    """

    def __init__(self, gate: RateGate, settings: DocumentSettings) -> None:
        self._gate = gate
        self._calls = RatePolicy(rate=settings.api_rate_per_sec, burst=settings.api_burst)
        self._uploads = RatePolicy(rate=settings.upload_rate_per_sec, burst=settings.upload_burst)
        self._jobs = RatePolicy(rate=settings.job_rate_per_min / 60, burst=settings.job_burst)
        self._crowds: dict[str, Together[RatePolicy, bool]] = {}

    async def one_call(self, merchant_id: str) -> None:
        await self.one_of("api", merchant_id, self._calls)

    async def one_upload(self, merchant_id: str) -> None:
        """An upload that is begun or cancelled; sending its bytes is not counted."""
        await self.one_of("uploads", merchant_id, self._uploads)

    async def one_job(self, merchant_id: str) -> None:
        await self.one_of("jobs", merchant_id, self._jobs)

    async def one_of(self, scope: str, merchant_id: str, policy: RatePolicy) -> None:
        """One call of a kind that has a limit of its own. RATE_LIMITED with the time to wait."""
        key = f"{scope}:{merchant_id}"
        try:
            if not await self._crowd(key).ask(policy):
                await self._gate.permit(key, policy, deadline=_PATIENCE)
        except PenstockError as refusal:
            if self._gate.is_local:
                return
            wait = round(refusal.details["retry_after"], 3)
            raise PenstockError(error_codes.RATE_LIMITED, scope=scope, retry_after=wait) from None
        except RedisTrouble as trouble:
            log.warning("limits.not_counted", reason=str(trouble))

    def _crowd(self, key: str) -> Together[RatePolicy, bool]:
        if key not in self._crowds:
            self._crowds[key] = Together(partial(self._let_pass, key), most=_MOST)
        return self._crowds[key]

    async def _let_pass(self, key: str, calls: list[RatePolicy]) -> list[bool]:
        """All or none; none when they are more than a bucket can hold."""
        policy, cost = calls[0], len(calls)
        passed = cost <= policy.burst and isinstance(await self._gate.acquire(key, policy, cost=cost), Allow)
        return [passed] * cost
