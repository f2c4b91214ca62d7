"""Requests and tokens of a minute: every request asks the rate gate for both, and tells it what the answer says.

Invariant: nobody waits longer than the settings allow; who would have to is told so at once.
"""

from penstock.kernel import error_codes
from penstock.kernel.backoff import exponential
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import Outcome, RateGate, RatePolicy, Signal
from penstock.llm import metrics
from penstock.llm.answers import Limits
from penstock.llm.faults import CallFailed, TransportFault
from penstock.llm.settings import LlmSettings

_LONGEST_PAUSE = 8.0
_ROOM = 1.2  # a Retry-After that is just within patience gets up to 15 % of jitter on top


class Pacer:
    """One per process, over its rate gate."""

    def __init__(self, gate: RateGate, settings: LlmSettings, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self.patience = settings.patience.total_seconds()
        self.attempts = settings.attempts
        self._first_pause = settings.retry_pause.total_seconds()
        self._requests = settings.request_policy()
        self._tokens = settings.token_policy()
        self._tpm = settings.tpm

    async def permit(self, model: str, tokens: int) -> None:
        """LLM_RATE_LIMITED with `retry_after` when the turn would come too late."""
        if self._tokens is not None and tokens > self._tpm:
            raise PenstockError(error_codes.LLM_CONTEXT_TOO_LONG, tokens=tokens, limit=self._tpm, model=model)
        started = self._clock.monotonic()
        ends = started + self.patience * _ROOM
        await self._take(_requests_key(model), self._requests, 1, ends)
        if self._tokens is not None:
            while tokens > 0:  # in pieces: one request may need more than the bucket holds
                piece = min(tokens, self._tokens.burst)
                await self._take(_tokens_key(model), self._tokens, piece, ends)
                tokens -= piece
        metrics.WAIT_SECONDS.labels(model).observe(self._clock.monotonic() - started)

    async def _take(self, key: str, policy: RatePolicy, cost: int, ends: float) -> None:
        left = max(0.0, ends - self._clock.monotonic())
        try:
            await self._gate.permit(key, policy, cost=cost, deadline=left)
        except PenstockError as refusal:
            if refusal.code is not error_codes.RATE_LIMITED:
                raise
            wait = round(float(refusal.details["retry_after"]), 3)
            details = {"reason": str(refusal.details["reason"]), "retry_after": wait}
            raise PenstockError(error_codes.LLM_RATE_LIMITED, **details) from None

    async def pause(self, attempt: int) -> None:
        """Before the next attempt, when the endpoint did not say how long."""
        await self._clock.sleep(exponential(attempt, first=self._first_pause, most=_LONGEST_PAUSE))

    async def answered(self, model: str, limits: Limits) -> None:
        await self._hint(_requests_key(model), self._requests, limits.requests_left, limits.requests_reset)
        if self._tokens is not None:
            await self._hint(_tokens_key(model), self._tokens, limits.tokens_left, limits.tokens_reset)

    async def failed(self, model: str, failure: CallFailed) -> None:
        """A wait that the endpoint asked for holds for every process."""
        outcome = Outcome.OK
        if failure.is_too_fast:
            outcome = Outcome.HTTP_429
        elif isinstance(failure, TransportFault) and "status" in failure.details:
            outcome = Outcome.SERVER_ERROR
        await self._gate.feedback(_requests_key(model), self._requests, Signal(outcome, retry_after=failure.after))

    async def _hint(self, key: str, policy: RatePolicy, left: int | None, reset: float | None) -> None:
        if left is None or left >= policy.burst:
            return  # no news
        silence = reset if left == 0 else None
        await self._gate.feedback(key, policy, Signal(retry_after=silence, limit_remaining=left))


def _requests_key(model: str) -> str:
    return f"llm:{model}:qpm"


def _tokens_key(model: str) -> str:
    return f"llm:{model}:tpm"
