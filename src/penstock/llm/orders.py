"""One request and what is written of it: the order, the record it becomes, and the sum over a whole question."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.kernel.budget import Reservation
from penstock.llm.answers import Completion
from penstock.llm.faults import CallFailed, Spent
from penstock.llm.ports import Ask, Usage
from penstock.llm.store import CallRecord
from penstock.llm.tokens import Price, estimate_tokens
from penstock.llm.verdicts import Verdict

OK = "ok"
_HIDDEN = frozenset({"merchant_id", "subject_type", "subject_id"})  # the caller knows them


@dataclass(frozen=True, slots=True)
class Order:
    """What to send to whom, what it can use at the most, and how to judge the answer."""

    ask: Ask
    model: str
    body: Mapping[str, Any]
    prompt_tokens: int
    output_tokens: int
    judge: Callable[[Completion], Awaitable[Verdict]]


@dataclass(slots=True)
class Ledger:
    """What one question has used, over all calls and models."""

    records: list[CallRecord] = field(default_factory=list)

    def usage(self) -> Usage:
        records = self.records
        return Usage(
            sum(record.prompt_tokens for record in records),
            sum(record.output_tokens for record in records),
            any(record.is_estimated for record in records),
            sum(record.cost_micro_usd for record in records),
            len(records),
        )

    def trace(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(
            {name: value for name, value in asdict(record).items() if name not in _HIDDEN} for record in self.records
        )


@dataclass(frozen=True, slots=True)
class Booking:
    """A request that money is set aside for."""

    order: Order
    reservation: Reservation
    retries: int
    started: float
    price: Price

    def of_answer(self, completion: Completion, verdict: Verdict, ended: float) -> CallRecord:
        """What the endpoint does not count is guessed, and marked so."""
        prompt, output = completion.prompt_tokens, completion.output_tokens
        is_estimated = prompt is None or output is None
        if prompt is None or output is None:
            prompt, output = self.order.prompt_tokens, estimate_tokens(completion.content)
        return self._record(
            verdict.code.code if verdict.code else OK,
            ended,
            finish_reason=completion.finish_reason,
            request_id=completion.request_id,
            prompt_tokens=prompt,
            output_tokens=output,
            is_estimated=is_estimated,
            cost_micro_usd=self.price.cost(prompt, output),
        )

    def of_failure(self, failed: CallFailed, ended: float) -> CallRecord:
        """Money that may be gone is gone: a lost answer counts as the longest one."""
        if failed.spent is Spent.NOTHING:
            return self._record(failed.code.code, ended, request_id=failed.request_id)
        return self._record(
            failed.code.code,
            ended,
            request_id=failed.request_id,
            prompt_tokens=self.order.prompt_tokens,
            output_tokens=self.order.output_tokens,
            is_estimated=True,
            cost_micro_usd=self.reservation.amount,
        )

    def _record(self, outcome: str, ended: float, **facts: Any) -> CallRecord:
        ask = self.order.ask
        return CallRecord(
            ask.merchant_id,
            ask.subject_type,
            ask.subject_id,
            ask.prompt.name,
            ask.prompt.version,
            self.order.model,
            outcome,
            self.retries,
            round((ended - self.started) * 1000),
            **facts,
        )
