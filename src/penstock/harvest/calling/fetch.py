"""One page: permit, credentials, send, tell the gate, judge, and again where that can help.

What passes (429, 5xx, time-outs, torn bodies, pages that cannot be read) is repeated with growing pauses; what does
not (other 4xx) is told at once. A pause that is longer than a task may hold its slot ends the fetch as RATE_LIMITED:
the task goes back to the queue. Invariant: every request has its own permit, and every error leaves masked.
"""

import asyncio
import hashlib
import inspect
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Generic, NoReturn, TypeVar

from penstock.harvest.calling import metrics
from penstock.harvest.calling.answers import Answer, Hints, date_behind, hints_of
from penstock.harvest.calling.auth import Authenticator
from penstock.harvest.calling.credentials import Credentials
from penstock.harvest.calling.evidence import Evidence
from penstock.harvest.calling.masking import Mask
from penstock.harvest.calling.pacing import Pacer, outcome_of
from penstock.harvest.calling.request import Request
from penstock.harvest.calling.transport import Additions, Transport, Transports
from penstock.harvest.spec import Operation, Retry, Sections, Spec
from penstock.kernel import error_codes
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.errors import ErrorCode, PenstockError
from penstock.kernel.rategate import Outcome

T = TypeVar("T")
_KEPT = 65_536  # bytes of an answer that was read; samples of it are shorter
_HASHED_AT_ONCE = 1 << 20  # bytes
_PASSING = (error_codes.SOURCE_UNAVAILABLE, error_codes.SOURCE_ANSWER_INVALID)


@dataclass(frozen=True, slots=True)
class Order(Generic[T]):
    """What to fetch. `sections` are the spec's own, or its detail's. `read` makes a page of an answer, or raises."""

    spec: Spec
    sections: Sections
    request: Request
    task: str
    correlation_id: str
    operation: Operation
    read: Callable[[Answer], T | Awaitable[T]] | None = None


async def hash_of(body: bytes) -> str:
    """Hashes an answer as it came; a large one in a thread, as others wait for the event loop."""
    made = await asyncio.to_thread(hashlib.sha256, body) if len(body) > _HASHED_AT_ONCE else hashlib.sha256(body)
    return f"sha256:{made.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Fetched(Generic[T]):
    """A page, how it was got, and the mask for samples of it. Of an answer that was read only the beginning is kept."""

    answer: Answer
    evidence: dict[str, Any]
    date_behind: timedelta | None
    page: T | None = None
    mask: Mask = field(default_factory=Mask, repr=False)


class Fetcher:
    """One per process."""

    def __init__(
        self, transports: Transports, credentials: Credentials, pacer: Pacer, clock: Clock | None = None
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._transports = transports
        self._credentials = credentials
        self._authenticators: dict[Transport, Authenticator] = {}
        self._pacer = pacer

    async def fetch(self, order: Order[T]) -> Fetched[T]:
        """SOURCE_UNAVAILABLE, SOURCE_REFUSED, SOURCE_AUTH_FAILED, RATE_LIMITED …; each with its evidence."""
        transport = self._transports.of(order.spec)
        authenticator = self._authenticators.get(transport)
        if authenticator is None:
            authenticator = Authenticator(self._credentials, transport, self._clock)
            self._authenticators[transport] = authenticator
        return await _Fetching(order, transport, authenticator, self._pacer, self._clock).run()


class _Again(Exception):
    """This attempt failed in a way that may pass."""

    def __init__(self, failure: PenstockError, after: float | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.after = after  # seconds that the source asked for; the gate waits them


class _Fetching(Generic[T]):
    """One fetch, with all its attempts."""

    def __init__(
        self, order: Order[T], transport: Transport, authenticator: Authenticator, pacer: Pacer, clock: Clock
    ) -> None:
        self._order = order
        self._transport = transport
        self._authenticator = authenticator
        self._pacer = pacer
        self._clock = clock
        self._evidence = Evidence(order.request, pacer.lane(order.spec, order.sections))
        self._where = (order.spec.provenance_code, self._evidence.lane.endpoint, order.operation.value)
        self._used = Additions()
        self._secrets: set[str] = set()
        self._mask = Mask()
        self._has_renewed = False

    async def run(self) -> Fetched[T]:
        retry = self._order.sections.retry
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt()
            except _Again as again:
                if again.after is not None and again.after > self._pacer.patience:
                    self._give_back(again.after)
                if attempt >= retry.max_attempts:
                    self._raise(again.failure, attempts=attempt)
                self._evidence.retries += 1
                metrics.RETRIES.labels(*self._where).inc()
                if again.after is None:
                    await self._clock.sleep(pause_after(attempt, retry))
            except PenstockError as failure:
                self._raise(failure)

    # One attempt ---------------------------------------------------------------------------------------------
    async def _attempt(self) -> Fetched[T]:
        order, evidence = self._order, self._evidence
        async with self._pacer.connection(order.spec, order.sections):
            answer = await self._exchange()
            if answer.status == 401 and self._may_renew():
                answer = await self._exchange()
        hints = hints_of(answer.headers, self._clock.now())
        self._judge(answer, hints)
        page = await self._read(answer)
        if self._order.read is not None:
            answer = replace(answer, body=answer.body[:_KEPT])
        metrics.REQUESTS.labels(*self._where, "ok").inc()
        behind = date_behind(answer.headers, self._clock.now())
        return Fetched(answer, evidence.told(self._mask), behind, page, self._mask)

    async def _exchange(self) -> Answer:
        order, evidence = self._order, self._evidence
        lane = evidence.lane = self._pacer.lane(order.spec, order.sections)
        await self._make_ready()
        try:
            allow = await self._pacer.permit(lane, order.operation, order.task)
        except PenstockError as refusal:
            self._note_refusal(refusal)
            raise
        evidence.permitted(allow)
        metrics.WAIT_SECONDS.labels(*self._where[:2]).observe(allow.waited)
        started = self._clock.monotonic()
        try:
            self._used = await self._authenticator.additions(order.spec.provenance_code, order.sections, order.request)
            self._secrets |= set(self._used.secrets)
            self._mask = Mask(self._secrets)
            answer = await self._transport.send(
                order.sections, order.request, correlation_id=order.correlation_id, additions=self._used
            )
        except PenstockError as failure:
            await self._note_silence(failure, self._clock.monotonic() - started)
            raise (_Again(failure) if failure.code is error_codes.SOURCE_UNAVAILABLE else failure) from None
        now = self._clock.now()
        hints = hints_of(answer.headers, now)
        evidence.answered(answer, await hash_of(answer.body), hints, now)
        metrics.HTTP_SECONDS.labels(*self._where[:2]).observe(answer.seconds)
        metrics.TOO_MANY.labels(*self._where).inc(answer.says_too_fast)
        await self._pacer.feedback(lane, outcome_of(answer), hints)
        return answer

    async def _make_ready(self) -> None:
        """What takes time comes before the permit: sources count when a request arrives, not when it was allowed."""
        order, started = self._order, self._clock.monotonic()
        self._transport.ready(order.sections)
        try:
            await self._authenticator.ready(order.spec.provenance_code, order.sections)
        except PenstockError as failure:
            await self._note_silence(failure, self._clock.monotonic() - started)
            raise (_Again(failure) if failure.code is error_codes.SOURCE_UNAVAILABLE else failure) from None

    def _may_renew(self) -> bool:
        """Once in a fetch: the secret may have been changed since we read it."""
        if self._has_renewed:
            return False
        self._has_renewed = True
        order = self._order
        return self._authenticator.refused(order.spec.provenance_code, order.sections.auth, self._used)

    def _judge(self, answer: Answer, hints: Hints) -> None:
        """Returns for an answer that is worth reading."""
        status, retry = answer.status, self._order.sections.retry
        if 200 <= status < 300 and not answer.says_too_fast:
            return
        if status in retry.retryable_status or answer.says_too_fast:
            metrics.REQUESTS.labels(*self._where, "429" if answer.says_too_fast else "retryable").inc()
            details = {"status": status, "retry_after": hints.retry_after}
            raise _Again(PenstockError(error_codes.SOURCE_UNAVAILABLE, **details), hints.retry_after)
        metrics.REQUESTS.labels(*self._where, "refused").inc()
        raise self._refusal(answer, hints)

    def _refusal(self, answer: Answer, hints: Hints) -> PenstockError:
        code: ErrorCode = error_codes.SOURCE_REFUSED
        details: dict[str, Any] = {"status": answer.status, "answer": self._mask.sample(answer.body)}
        order = self._order
        missed = self._authenticator.missed(order.spec.provenance_code, order.sections.auth, self._used)
        if answer.status in {401, 403} and self._used.secrets:
            code = error_codes.SOURCE_AUTH_FAILED
        elif answer.status in {401, 403} and missed:
            code = error_codes.CREDENTIAL_MISSING
            details["reference"] = missed
        elif answer.status >= 500:
            code = error_codes.SOURCE_UNAVAILABLE
        if code is error_codes.SOURCE_UNAVAILABLE:
            details["retry_after"] = hints.retry_after
        return PenstockError(code, **details)

    async def _read(self, answer: Answer) -> T | None:
        if self._order.read is None:
            return None
        try:
            page = self._order.read(answer)
            return await page if inspect.isawaitable(page) else page
        except PenstockError as failure:
            metrics.REQUESTS.labels(*self._where, "unreadable").inc()
            if failure.code not in _PASSING:
                raise
            if failure.code is error_codes.SOURCE_UNAVAILABLE:  # a refusal that came as 200
                self._evidence.demotions += 1
                await self._pacer.feedback(self._evidence.lane, Outcome.SERVER_ERROR, Hints())
            raise _Again(failure) from None

    # Accounts ------------------------------------------------------------------------------------------------
    def _note_refusal(self, refusal: PenstockError) -> None:
        reason = str(refusal.details.get("reason", ""))
        self._evidence.rejected(reason, float(refusal.details.get("retry_after", 0.0)))
        metrics.PERMITS_REFUSED.labels(*self._where, reason).inc()

    async def _note_silence(self, failure: PenstockError, seconds: float) -> None:
        reason = str(failure.details.get("reason", failure.code.code))
        self._evidence.unanswered(reason, seconds)
        metrics.REQUESTS.labels(*self._where, "failed").inc()
        if failure.code is error_codes.SOURCE_UNAVAILABLE:
            await self._pacer.feedback(self._evidence.lane, Outcome.SERVER_ERROR, Hints())

    def _give_back(self, after: float) -> NoReturn:
        self._evidence.rejected("RETRY_AFTER", after)
        key = self._evidence.lane.key
        self._raise(PenstockError(error_codes.RATE_LIMITED, key=key, reason="RETRY_AFTER", retry_after=after))

    def _raise(self, failure: PenstockError, **more: Any) -> NoReturn:
        """Masked, and with the account of what was tried."""
        details = {**self._mask.value(dict(failure.details)), **more}
        for name in ("sample", "answer"):
            if isinstance(details.get(name), str):
                details[name] = self._mask.text(details[name])
        raise PenstockError(failure.code, **details, evidence=self._evidence.told(self._mask)) from None


def pause_after(attempt: int, retry: Retry) -> float:
    """Seconds: exponential, up to the longest, then up to `jitter` more."""
    grown = retry.first.total_seconds() * retry.multiplier ** min(attempt - 1, 60)
    spread = 1 + random.random() * retry.jitter  # noqa: S311  spreads load, guards nothing
    return min(retry.longest.total_seconds(), grown) * spread
