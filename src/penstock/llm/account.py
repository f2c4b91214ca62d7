"""Money: the worst case is set aside before a request is sent, and what it really cost is booked after it.

The booking and the row of the call are one transaction; none is open while we wait for the model. Invariant: what is
booked in a day is what the rows of `llm_call` add up to, and what the dead had set aside.
"""

from dataclasses import replace
from datetime import timedelta

import structlog

from penstock.kernel import error_codes
from penstock.kernel.budget import Budgets, Reservation
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.llm import metrics
from penstock.llm.settings import LlmSettings
from penstock.llm.store import CallRecord, record_call
from penstock.llm.tokens import Price

log = structlog.get_logger(__name__)
_MARGIN = timedelta(minutes=5)  # after an answer must have come, until its reservation lapses


class Account:
    """One per process."""

    def __init__(self, database: Database, settings: LlmSettings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._budgets = Budgets(clock)

    def price_of(self, model: str) -> Price:
        return self._settings.price_of(model)

    async def reserve(self, amount: int, merchant_id: str | None) -> Reservation:
        scopes = self._settings.budgets_of(merchant_id)
        ttl = self._settings.timeout + self._settings.connect_timeout + _MARGIN
        try:
            async with self._database.transaction() as tx:
                return await self._budgets.reserve(tx, amount, scopes, ttl=ttl, code=error_codes.LLM_BUDGET_EXHAUSTED)
        except PenstockError as refusal:
            if refusal.code is error_codes.LLM_BUDGET_EXHAUSTED:
                log.warning("llm.budget_exhausted", **refusal.details)
            raise

    async def release(self, reservation: Reservation) -> None:
        async with self._database.transaction() as tx:
            await self._budgets.release(tx, reservation)

    async def settle(self, reservation: Reservation, record: CallRecord) -> CallRecord:
        """Returns the record as it was written."""
        async with self._database.transaction() as tx:
            if not await self._budgets.settle(tx, reservation, record.cost_micro_usd):
                log.warning("llm.reservation_lapsed", model=record.model, amount=reservation.amount)
                record = replace(record, cost_micro_usd=reservation.amount)
            await record_call(tx, record)
        metrics.CALLS.labels(record.model, record.outcome).inc()
        metrics.TOKENS.labels(record.model, "prompt").inc(record.prompt_tokens)
        metrics.TOKENS.labels(record.model, "output").inc(record.output_tokens)
        metrics.COST.labels(record.model).inc(record.cost_micro_usd)
        metrics.SECONDS.labels(record.model).observe(record.latency_ms / 1000)
        return record
