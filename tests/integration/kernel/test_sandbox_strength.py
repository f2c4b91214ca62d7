"""A sandbox that is weaker than it could be says so, and does not start where the operator requires more."""

import asyncio
import json
import sys
from pathlib import Path

from tests.support.sandboxes import linux, make

from penstock.kernel.health import ComponentStatus, sandbox_check
from penstock.kernel.sandbox import Strength

CHECKOUT = Path(__file__).parents[3]


async def without_landlock(require: str) -> dict:
    program = [sys.executable, "-m", "tests.support.without_landlock", require]
    process = await asyncio.create_subprocess_exec(*program, cwd=CHECKOUT, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return json.loads(said)


@linux
class TestWithoutLandlock:
    async def test_it_is_said_in_the_log_and_in_health(self):
        said = await without_landlock("any")
        assert said["strength"] == "no_file_rules"
        assert ["error", "sandbox.is_weak"] in said["log"]
        assert (said["health"], "could read" in said["reason"]) == ("degraded", True)

    async def test_it_does_not_start_where_file_rules_are_required(self):
        said = await without_landlock("full")
        assert "PENSTOCK_SANDBOX_REQUIRE is full and this machine gives no_file_rules" in said["refused"]

    async def test_it_starts_where_the_filter_is_enough(self):
        assert (await without_landlock("filter"))["strength"] == "no_file_rules"


class TestWithLandlock:
    async def test_health_is_well(self):
        async with make(require="any") as sandbox:
            if sandbox.strength is Strength.FULL:
                assert (await sandbox_check(sandbox)()).status is ComponentStatus.OK
