"""The language model as the rest of Penstock sees it: models of one endpoint, asked in order of preference.

The next model is asked when one is paused, does not answer, is too busy or has no credit left; never because its
answer is not liked. Invariant: a reply fits the schema; anything else is a PenstockError with a code of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from penstock.kernel import error_codes
from penstock.kernel.breaker import Breaker
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import RateGate
from penstock.kernel.telemetry import spanned
from penstock.llm.account import Account
from penstock.llm.calling import Caller
from penstock.llm.circuits import Circuits
from penstock.llm.endpoint import Endpoint
from penstock.llm.judge import Judge
from penstock.llm.ladder import Ladder
from penstock.llm.orders import Ledger
from penstock.llm.pacing import Pacer
from penstock.llm.ports import Ask, LanguageModel, Reply
from penstock.llm.settings import LlmSettings

log = structlog.get_logger(__name__)
_ASK_THE_NEXT = frozenset(
    {
        error_codes.LLM_CIRCUIT_OPEN,
        error_codes.LLM_UNAVAILABLE,
        error_codes.LLM_RATE_LIMITED,
        error_codes.LLM_QUOTA_EXHAUSTED,
    }
)
_UNKNOWN_MODEL = 404


class Guards(NamedTuple):
    """What all processes share to spare an endpoint."""

    gate: RateGate
    breaker: Breaker


class Llm(LanguageModel):
    """One per process; `close` it at the end."""

    def __init__(
        self, settings: LlmSettings, database: Database, guards: Guards, judge: Judge, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        gate, breaker = guards
        self._settings = settings
        self._judge = judge
        self._endpoint = Endpoint(settings, clock)
        account = Account(database, settings, clock)
        circuits = Circuits(breaker, settings)
        caller = Caller(self._endpoint, Pacer(gate, settings, clock), account, circuits, clock)
        self._ladder = Ladder(caller, judge, settings)

    async def close(self) -> None:
        await self._endpoint.close()

    async def ask(self, ask: Ask) -> Reply:
        if not self._settings.is_configured:
            raise PenstockError(error_codes.LLM_NOT_CONFIGURED)
        target = None if ask.schema is None else await self._judge.wanted(ask.schema, ask.merchant_id or "")
        ledger, refusals = Ledger(), []
        with spanned("llm.ask", llm_purpose=ask.prompt.name, llm_subject=f"{ask.subject_type} {ask.subject_id}"):
            for model in self._settings.models:
                try:
                    value, repairs = await self._ladder.climb(ask, model, target, ledger)
                except PenstockError as refusal:
                    if not _is_of_the_model(refusal):
                        raise
                    log.warning("llm.model_passed_over", model=model, code=refusal.code.code)
                    refusals.append((model, refusal))
                else:
                    return Reply(value, model, ledger.usage(), repairs, ledger.trace())
            raise _worst(refusals)


def _is_of_the_model(refusal: PenstockError) -> bool:
    is_gone = refusal.code is error_codes.LLM_REQUEST_REFUSED and refusal.details.get("status") == _UNKNOWN_MODEL
    return refusal.code in _ASK_THE_NEXT or is_gone


def _worst(refusals: Sequence[tuple[str, PenstockError]]) -> PenstockError:
    """Of several, the first that may pass by itself: then it is worth coming back."""
    if len(refusals) == 1:
        return refusals[0][1]
    told = next((refusal for _, refusal in refusals if refusal.code.retryable), refusals[0][1])
    others = [f"{model}: {refusal.code.code}" for model, refusal in refusals]
    return PenstockError(told.code, **{**told.details, "models": others})
