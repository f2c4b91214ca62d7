"""The outermost layer of every gRPC call, as the edge is of HTTP.

It names the call, goes on with the caller's trace, asks who it is and whether they may before the message is even
read, and turns what went wrong into a status. What nobody expected is logged once; the client never sees a stack
trace. A call that its client gave up is cut off where it stands: transactions roll back.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError
from opentelemetry.trace import Span, SpanKind

from penstock.bootstrap import Parts
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.identity.access import Roles, require
from penstock.kernel.language import preferred
from penstock.kernel.shares import ON_BEHALF_OF
from penstock.kernel.telemetry import bound, continued
from penstock.kernel.telemetry.request_ids import request_id
from penstock.kernel.trusted_peers import TrustedPeers, peer_of_grpc
from penstock.kernel.turns import LONGEST_SECONDS, wait_as_stranger
from penstock.rpc import metrics
from penstock.rpc.messages import NoMessage, read_message
from penstock.rpc.metadata import Metadata, caller_of
from penstock.rpc.status import DETAILS, described, message_of, status_of

log = structlog.get_logger(__name__)
MOST_PER_MERCHANT = 2048  # calls under way, most of which wait for their turn


@dataclass(frozen=True, slots=True)
class Method:
    """One call: who may, what it reads, who answers."""

    roles: Roles
    reads: Any  # the message's class
    answer: Callable[[Caller, Any], Awaitable[Any]]


class _LateCall(Exception):
    """The client waits no longer."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Of one service: `handlers` is what a server is given."""

    parts: Parts
    service: str
    methods: Mapping[str, Method]
    trusted: TrustedPeers
    under_way: Counter[str] = field(default_factory=Counter)  # calls by merchant

    def handlers(self) -> Any:
        made = {name: self._handler(f"{self.service}/{name}", method) for name, method in self.methods.items()}
        return grpc.method_handlers_generic_handler(self.service, made)

    def _handler(self, name: str, method: Method) -> Any:
        async def answered(_messages: Any, context: Any) -> Any:
            return await self._answered(name, method, context)

        return grpc.stream_unary_rpc_method_handler(answered, response_serializer=_serialised)

    async def _answered(self, name: str, method: Method, context: Any) -> Any:
        metadata = Metadata(context.invocation_metadata())
        called = request_id(metadata.first("x-request-id"))
        started, code = time.perf_counter(), grpc.StatusCode.CANCELLED
        ON_BEHALF_OF.set(None)
        structlog.contextvars.clear_contextvars()
        try:
            with (
                continued(metadata.first("traceparent"), name, kind=SpanKind.SERVER, rpc_system="grpc") as span,
                bound(request_id=called),
            ):
                outcome = await self._outcome(name, method, metadata, context)
                code = _code_of(outcome)
                _note(span, code)
            return await self._said(outcome, metadata, called, context)
        finally:
            metrics.CALLS.labels(name, code.name).inc()
            metrics.DURATION.labels(name).observe(time.perf_counter() - started)

    async def _outcome(self, name: str, method: Method, metadata: Metadata, context: Any) -> Any:
        """The answer, or what stands for one."""
        limit = asyncio.timeout(context.time_remaining())
        try:
            async with limit:
                caller = await self._known(metadata)
                merchant_id = caller.merchant_id
                with self._one_of(merchant_id), self._trusting(context.peer(), merchant_id):
                    async with self.parts.turns.of(merchant_id, is_paced=True) as turn:
                        turn.give_after(LONGEST_SECONDS)
                        await self.parts.limits.one_call(merchant_id)
                        require(caller, method.roles)
                        return await method.answer(caller, await _read(method, context))
        except PenstockError as refused:
            return refused
        except TimeoutError:
            if limit.expired():
                return _LateCall()
            log.exception("rpc.failed", method=name)
        except Exception:
            log.exception("rpc.failed", method=name)
        return PenstockError(error_codes.INTERNAL_ERROR)

    async def _known(self, metadata: Metadata) -> Caller:
        parts = self.parts
        trusting = parts.settings.runtime.grpc_trust_metadata
        try:
            caller = await caller_of(metadata, parts.identity, trusting=trusting)
        except PenstockError:
            await wait_as_stranger(parts.turns)
            raise
        ON_BEHALF_OF.set(caller.merchant_id)
        structlog.contextvars.bind_contextvars(user_id=caller.user_id, merchant_id=caller.merchant_id)
        return caller

    @contextmanager
    def _one_of(self, merchant_id: str) -> Iterator[None]:
        """Counts a call of a merchant. RATE_LIMITED when too many are under way: others shall have places too."""
        if self.under_way[merchant_id] >= MOST_PER_MERCHANT:
            raise PenstockError(error_codes.RATE_LIMITED, scope="calls at once", retry_after=1.0)
        self.under_way[merchant_id] += 1
        try:
            yield
        finally:
            self.under_way[merchant_id] -= 1
            if not self.under_way[merchant_id]:
                del self.under_way[merchant_id]

    def _trusting(self, peer: str, merchant_id: str) -> AbstractContextManager[None]:
        """Says that the connection is busy with a call of this merchant."""
        known = peer_of_grpc(peer)
        return nullcontext() if known is None else self.trusted.serving(*known, merchant_id)

    async def _said(self, outcome: Any, metadata: Metadata, called: str, context: Any) -> Any:
        named = ("x-request-id", called)
        if isinstance(outcome, _LateCall):
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline has passed", (named,))
        if isinstance(outcome, PenstockError):
            language = preferred(metadata.first("accept-language"), self.parts.settings.runtime.language)
            details = (DETAILS, described(outcome, language, called))
            await context.abort(_code_of(outcome), message_of(outcome.code), (named, details))
        context.set_trailing_metadata((named,))
        return outcome


def _code_of(outcome: Any) -> grpc.StatusCode:
    if isinstance(outcome, _LateCall):
        return grpc.StatusCode.DEADLINE_EXCEEDED
    return status_of(outcome.code) if isinstance(outcome, PenstockError) else grpc.StatusCode.OK


async def _read(method: Method, context: Any) -> Any:
    try:
        return method.reads.FromString(await read_message(context))
    except NoMessage as missing:
        raise PenstockError(error_codes.REQUEST_INVALID, reason=str(missing)) from None
    except DecodeError as wrong:
        reason = "it is not a message of this kind"
        raise PenstockError(error_codes.REQUEST_INVALID, reason=reason) from wrong


def _serialised(answer: Any) -> bytes:
    found: bytes = answer.SerializeToString()
    return found


def _note(span: Span, code: grpc.StatusCode) -> None:
    if span.is_recording():
        span.set_attribute("rpc.grpc.status_code", code.value[0])
