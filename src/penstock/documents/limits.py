"""How fast a merchant may call. Without Redis there is no common count, and calls pass: a limit is for fairness."""

import structlog

from penstock.documents.settings import DocumentSettings
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import RateGate, RatePolicy
from penstock.kernel.redis import RedisTrouble

log = structlog.get_logger(__name__)

_PATIENCE = 0.25  # seconds; a bucket that has just been made needs a moment to hold something


class CallLimits:
    """One per process; the counts are in Redis, so they hold for all processes together."""

    def __init__(self, gate: RateGate, settings: DocumentSettings) -> None:
        self._gate = gate
        self._calls = RatePolicy(rate=settings.api_rate_per_sec, burst=settings.api_burst)
        self._jobs = RatePolicy(rate=settings.job_rate_per_min / 60, burst=settings.job_burst)

    async def one_call(self, merchant_id: str) -> None:
        await self.one_of("api", merchant_id, self._calls)

    async def one_job(self, merchant_id: str) -> None:
        await self.one_of("jobs", merchant_id, self._jobs)

    async def one_of(self, scope: str, merchant_id: str, policy: RatePolicy) -> None:
        """One call of a kind that has a limit of its own. RATE_LIMITED with the time to wait."""
        try:
            await self._gate.permit(f"{scope}:{merchant_id}", policy, deadline=_PATIENCE)
        except PenstockError as refusal:
            if self._gate.is_local:
                return
            wait = round(refusal.details["retry_after"], 3)
            raise PenstockError(error_codes.RATE_LIMITED, scope=scope, retry_after=wait) from None
        except RedisTrouble as trouble:
            log.warning("limits.not_counted", reason=str(trouble))
