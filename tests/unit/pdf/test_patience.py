"""A document may have slow pages; one that is nothing else does not hold up all others for a day."""

from pathlib import Path

from penstock.kernel.sandbox import Ending, Limits, Outcome, Sandbox, SandboxSettings
from penstock.pdf.run import Run, TimedCalls, picture_refused


class TestPatience:
    def test_after_many_killed_calls_the_others_get_less_time(self):
        calls = TimedCalls(Sandbox(SandboxSettings()), 60)
        run, full = Run(Path("a.pdf"), range(1, 1001), calls, calls), Limits(cpu_seconds=30, wall_seconds=30)
        run.overlong = 15
        assert run.hurried(full) == full
        run.overlong = 16
        assert run.hurried(full) == Limits(cpu_seconds=3, wall_seconds=30)


class TestRefusals:
    def test_what_a_library_says_of_its_own_failure_is_not_told(self):
        refused = picture_refused(Outcome(Ending.FAILED, error="RuntimeError", message="Traceback: /usr/lib/x.py"))
        assert refused.details["reason"] == "failed: RuntimeError"

    def test_what_speaks_against_a_picture_is_told(self):
        refused = picture_refused(Outcome(Ending.FAILED, error="PictureUnreadable", message="it has no page 7"))
        assert refused.details["reason"] == "it has no page 7"
