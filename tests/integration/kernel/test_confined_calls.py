"""Calls on what users wrote, in real processes of the sandbox."""

import pytest
from tests.support.sandboxes import MiB, make

from penstock.kernel.confined_calls import SandboxCalls
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Limits

LIMITS = Limits(memory=64 * MiB, cpu_seconds=1, wall_seconds=20)


async def refused(awaitable) -> tuple[str, str]:
    with pytest.raises(PenstockError) as failure:
        await awaitable
    return failure.value.code.code, failure.value.details["reason"]


class TestInTheSandbox:
    async def test_cpu_time_and_memory_are_the_rules_fault_and_the_clock_is_the_machines(self):
        calls = SandboxCalls(make(), LIMITS, starts=True)
        clock = SandboxCalls(calls._sandbox, Limits(memory=64 * MiB, cpu_seconds=1, wall_seconds=0.2))
        try:
            spun = await refused(calls.call("hostile:loop_in_python", tenant="m1", returns=int))
            assert spun == ("ETL_RULE_TOO_COSTLY", "CPU_TIME")
            large = await refused(calls.call("hostile:allocate", 512 * MiB, tenant="m1", returns=int))
            assert large == ("ETL_RULE_TOO_COSTLY", "MEMORY")
            slept = await refused(clock.call("hostile:sleep", 5, tenant="m1", returns=int))
            assert slept[0] == "SANDBOX_UNAVAILABLE"
        finally:
            await calls.close()

    async def test_a_pool_that_was_closed_is_not_started_by_a_late_call(self):
        calls = SandboxCalls(make(), LIMITS, starts=True)
        await calls.close()
        late = await refused(calls.call("hostile:add", 1, 2, tenant="m1", returns=int))
        assert late == ("SANDBOX_UNAVAILABLE", "the sandbox is closed")
