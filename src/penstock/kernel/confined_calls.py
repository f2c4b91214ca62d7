"""Calls of our own functions on what a user wrote: a schema, a rule, a pattern. They run in the sandbox.

Such a function is marked `confined`: it counts its steps, and what it raises comes back as a value. A caller gets the
result, or a PenstockError: the function's own, ETL_RULE_TOO_COSTLY when steps, CPU time or memory ran out, which is a
verdict on the rule, and SANDBOX_UNAVAILABLE when this machine was in trouble, which is none and may be tried again.
"""

import asyncio
import importlib
from collections.abc import Callable
from functools import wraps
from signal import Signals
from typing import Any, Protocol, TypeVar

import msgspec
import structlog

from penstock.kernel import error_codes, json
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Ending, Limits, Outcome, Sandbox
from penstock.kernel.step_budget import TooCostly, step_budget

Value = TypeVar("Value")
log = structlog.get_logger(__name__)

_COSTLY = {
    Ending.TIMED_OUT: "CPU_TIME",
    Ending.OUT_OF_MEMORY: "MEMORY",
    Ending.RESULT_TOO_LARGE: "RESULT_SIZE",
}
_CARRIED = frozenset(
    each.code
    for each in (
        error_codes.ETL_RULE_TOO_COSTLY, error_codes.ETL_RULE_INVALID, error_codes.ETL_RESULT_INVALID,
        error_codes.LLM_OUTPUT_INVALID, error_codes.LLM_REQUEST_REFUSED,
    )
)  # fmt: skip


class Answer(msgspec.Struct):
    """What a confined function gives back: its encoded result, or the code and details of its refusal."""

    value: bytes = b""
    code: str = ""
    details: bytes = b"{}"


class ConfinedCalls(Protocol):
    """Runs `package.module:function(*args)`, a function that is marked `confined`."""

    async def call(self, function: str, *args: Any, tenant: str, returns: type[Value]) -> Value: ...


def confined(function: Callable[..., Any]) -> Callable[..., Answer]:
    """Marks a function that works on what a user wrote; arguments and result are what msgpack can carry."""

    @wraps(function)
    def run(*args: Any) -> Answer:
        try:
            with step_budget():
                return Answer(msgspec.msgpack.encode(function(*args)))
        except TooCostly as spent:
            return _refusal(too_costly("STEPS", spent.part))
        except RecursionError:
            return _refusal(too_costly("NESTING"))
        except PenstockError as refusal:
            return _refusal(refusal)

    return run


def too_costly(reason: str, part: str = "") -> PenstockError:
    """`part` is the JSON pointer of what took too much, if that is known."""
    return PenstockError(error_codes.ETL_RULE_TOO_COSTLY, reason=reason, **({"path": part} if part else {}))


class DirectCalls:
    """In this process, off the event loop: for the operator's own rules on the operator's own machine."""

    async def call(self, function: str, *args: Any, tenant: str, returns: type[Value]) -> Value:  # noqa: ARG002  the port asks for it
        module, _, name = function.partition(":")
        return _value(await asyncio.to_thread(getattr(importlib.import_module(module), name), *args), returns)


class SandboxCalls:
    """In a pool of the sandbox. With `starts`, the pool is this object's: started by the first call, closed here."""

    def __init__(self, sandbox: Sandbox, limits: Limits, *, starts: bool = False) -> None:
        self._sandbox, self._limits = sandbox, limits
        self._is_ready = not starts
        self._is_ours, self._is_closed = starts, False
        self._starting = asyncio.Lock()

    async def call(self, function: str, *args: Any, tenant: str, returns: type[Value]) -> Value:
        if not self._is_ready:
            await self._start()
        outcome = await self._sandbox.call(function, *args, limits=self._limits, tenant=tenant, returns=Answer)
        if outcome.value is None:
            raise _ended_badly(function, outcome)
        return _value(outcome.value, returns)

    async def close(self) -> None:
        async with self._starting:
            self._is_closed = True  # a late call does not start it again
            if self._is_ours and self._is_ready:
                await self._sandbox.close()

    async def _start(self) -> None:
        async with self._starting:
            if self._is_closed:
                raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason="the sandbox is closed")
            if not self._is_ready:
                await self._sandbox.start()
                self._is_ready = True


def _refusal(refusal: PenstockError) -> Answer:
    return Answer(code=refusal.code.code, details=json.dump_bytes(refusal.details))


def _value(answer: Answer, returns: type[Value]) -> Value:
    if not answer.code:
        return msgspec.msgpack.decode(answer.value, type=returns)
    if answer.code not in _CARRIED:
        raise PenstockError(error_codes.INTERNAL_ERROR, reason=f"refused with {answer.code[:100]}")
    raise PenstockError(error_codes.REGISTRY[answer.code], **json.loads(answer.details))


def _ended_badly(function: str, outcome: Outcome[Any]) -> PenstockError:
    """CPU time, memory and the size of a result are the rule's; the clock and a kill from outside are the machine's."""
    ending, message = outcome.ending, outcome.message
    log.warning("confined.call_ended_badly", function=function, ending=ending, error=outcome.error, message=message)
    is_crash = ending is Ending.CRASHED
    if is_crash and outcome.signal is Signals.SIGABRT:  # native code ends its process when it gets no memory
        ending = Ending.OUT_OF_MEMORY
    if ending in _COSTLY:
        return too_costly(_COSTLY[ending])
    if is_crash and outcome.signal is Signals.SIGSEGV:
        return too_costly("NESTING")
    if is_crash or not outcome.is_verdict:
        return PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=message)
    return PenstockError(error_codes.INTERNAL_ERROR, reason=f"{ending}: {outcome.error}")
