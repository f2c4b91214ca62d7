"""One call to one model: permit, reservation, request, booking, and again where that can help.

The order matters. Waiting for a turn comes before money is set aside, so that nobody is refused for what others only
wait with; the circuit is asked last, so that a probe is sent at once. Killed before the booking, the reservation
stays, lapses, and counts as spent: it may have been.
"""

from opentelemetry import trace
from opentelemetry.trace import SpanKind

from penstock.kernel import failpoints
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.telemetry import spanned
from penstock.kernel.telemetry.tracing import describe
from penstock.llm import metrics
from penstock.llm.account import Account
from penstock.llm.answers import Completion
from penstock.llm.circuits import Circuits
from penstock.llm.endpoint import Endpoint
from penstock.llm.faults import CallFailed
from penstock.llm.orders import Booking, Ledger, Order
from penstock.llm.pacing import Pacer
from penstock.llm.store import CallRecord
from penstock.llm.verdicts import Verdict


class Caller:
    """One per process."""

    def __init__(self, endpoint: Endpoint, pacer: Pacer, account: Account, circuits: Circuits, clock: Clock) -> None:
        self._endpoint = endpoint
        self._pacer = pacer
        self._account = account
        self._circuits = circuits
        self._clock = clock

    async def call(self, order: Order, ledger: Ledger) -> tuple[Completion, Verdict]:
        """Sent until it is answered; CallFailed says why the last attempt was not. The verdict may still be bad."""
        attempt = 0
        while True:
            attempt += 1
            try:
                with spanned("llm.call", kind=SpanKind.CLIENT, llm_model=order.model, llm_retries=attempt - 1):
                    return await self._attempt(order, ledger, attempt - 1)
            except CallFailed as failed:
                is_too_long = failed.after is not None and failed.after > self._pacer.patience
                if not failed.may_pass or attempt >= self._pacer.attempts or is_too_long:
                    raise
                if failed.after is None:  # else the gate waits, for all processes alike
                    await self._pacer.pause(attempt)

    async def _attempt(self, order: Order, ledger: Ledger, retries: int) -> tuple[Completion, Verdict]:
        booking = await self._begin(order, retries)
        failpoints.reach("llm.reserved")
        try:
            async with self._circuits.guard(order.model):
                completion = await self._endpoint.complete(order.body)
        except PenstockError:  # the circuit has opened meanwhile: nothing was sent
            await self._account.release(booking.reservation)
            raise
        except CallFailed as failed:
            await self._note_failure(booking, failed, ledger)
            raise
        failpoints.reach("llm.answered")
        ended = self._clock.monotonic()
        try:
            verdict = await order.judge(completion)
        except PenstockError as refusal:  # the answer came and costs what it costs
            await self._book(booking, booking.of_answer(completion, Verdict(refusal.code), ended), ledger)
            raise
        await self._book(booking, booking.of_answer(completion, verdict, ended), ledger)
        await self._pacer.answered(order.model, completion.limits)
        return completion, verdict

    async def _begin(self, order: Order, retries: int) -> Booking:
        model = order.model
        try:
            await self._circuits.check(model)
            await self._pacer.permit(model, order.prompt_tokens + order.output_tokens)
            price = self._account.price_of(model)
            worst = price.cost(order.prompt_tokens, order.output_tokens)
            reservation = await self._account.reserve(worst, order.ask.merchant_id)
        except PenstockError as refusal:
            metrics.CALLS.labels(model, refusal.code.code).inc()
            raise
        return Booking(order, reservation, retries, self._clock.monotonic(), price)

    async def _note_failure(self, booking: Booking, failed: CallFailed, ledger: Ledger) -> None:
        model = booking.order.model
        failed.details |= {"model": model, "attempts": booking.retries + 1}
        await self._book(booking, booking.of_failure(failed, self._clock.monotonic()), ledger)
        if failed.is_hopeless:
            await self._circuits.trip(model)
        await self._pacer.failed(model, failed)

    async def _book(self, booking: Booking, record: CallRecord, ledger: Ledger) -> None:
        written = await self._account.settle(booking.reservation, record)
        ledger.records.append(written)
        describe(
            trace.get_current_span(),
            llm_outcome=written.outcome,
            llm_purpose=f"{written.purpose}@{written.prompt_version}",
            llm_usage_prompt=written.prompt_tokens,
            llm_usage_output=written.output_tokens,
            llm_usage_cost=written.cost_micro_usd,
        )
