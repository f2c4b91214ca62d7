"""How calls on what users wrote end: with a result, a verdict on the rule, or trouble of this machine."""

from signal import Signals

import pytest

from penstock.kernel import error_codes
from penstock.kernel.confined_calls import DirectCalls, SandboxCalls, confined
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Ending, Limits, Outcome, Sandbox, SandboxSettings
from penstock.kernel.step_budget import spend, spending_on

HERE = "tests.unit.kernel.test_confined_calls"


@confined
def double(value: int) -> int:
    return 2 * value


@confined
def refuse(code: str) -> None:
    raise PenstockError(error_codes.REGISTRY[code], errors=[{"path": "/a", "message": "x"}])


@confined
def count(steps: int) -> None:
    with spending_on("/json_schema"):
        spend(steps)


@confined
def nest() -> None:
    nest_deeper()


def nest_deeper() -> None:
    nest_deeper()


async def called(function, *args):
    return await DirectCalls().call(f"{HERE}:{function}", *args, tenant="m1", returns=int)


async def refused(awaitable) -> PenstockError:
    with pytest.raises(PenstockError) as failure:
        await awaitable
    return failure.value


class TestResults:
    async def test_a_result_comes_back(self):
        assert await called("double", 4) == 8

    async def test_a_refusal_comes_back_with_its_details(self):
        failure = await refused(called("refuse", "ETL_RESULT_INVALID"))
        assert failure.code is error_codes.ETL_RESULT_INVALID
        assert failure.details["errors"] == [{"path": "/a", "message": "x"}]

    async def test_codes_that_are_not_expected_are_faults(self):
        assert (await refused(called("refuse", "LEASE_LOST"))).code is error_codes.INTERNAL_ERROR

    async def test_too_many_steps_are_told_with_their_part(self):
        failure = await refused(called("count", 10**9))
        assert failure.code is error_codes.ETL_RULE_TOO_COSTLY
        assert failure.details == {"reason": "STEPS", "path": "/json_schema"}

    async def test_what_is_nested_without_end_is_too_costly(self):
        assert (await refused(called("nest"))).details == {"reason": "NESTING"}


class _Ends(Sandbox):
    """A pool whose calls all end in one way."""

    def __init__(self, ending: Ending, signal: Signals | None = None) -> None:
        super().__init__(SandboxSettings())
        self._ended = ending, signal

    async def call(self, *_args, **_more):
        return Outcome(self._ended[0], signal=self._ended[1], error="E", message="m")


class TestEndings:
    @pytest.mark.parametrize(
        ("ending", "signal", "code"),
        [
            (Ending.TIMED_OUT, None, "ETL_RULE_TOO_COSTLY"),
            (Ending.STALLED, None, "SANDBOX_UNAVAILABLE"),
            (Ending.OUT_OF_MEMORY, None, "ETL_RULE_TOO_COSTLY"),
            (Ending.RESULT_TOO_LARGE, None, "ETL_RULE_TOO_COSTLY"),
            (Ending.CRASHED, Signals.SIGABRT, "ETL_RULE_TOO_COSTLY"),
            (Ending.CRASHED, Signals.SIGKILL, "SANDBOX_UNAVAILABLE"),
            (Ending.FAILED, None, "INTERNAL_ERROR"),
            (Ending.DENIED, Signals.SIGSYS, "INTERNAL_ERROR"),
        ],
    )
    async def test_only_what_a_rule_uses_up_is_a_verdict_on_the_rule(self, ending, signal, code):
        calls = SandboxCalls(_Ends(ending, signal), Limits())
        failure = await refused(calls.call("a:b", tenant="m1", returns=int))
        assert failure.code.code == code
        assert failure.code.retryable == (code != "ETL_RULE_TOO_COSTLY")
