"""Every ending of a sandboxed call is a verdict, with a code that exists."""

from signal import Signals

import pytest

from penstock.api.http_status import status_of
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.sandbox import Ending, Outcome
from penstock.pdf import codes
from penstock.pdf.examine import issue_of

TIMEOUT, MEMORY, FAILED = "SECURITY_PARSE_TIMEOUT", "SECURITY_MEMORY_EXCEEDED", "SECURITY_PARSE_FAILED"


class TestEndings:
    @pytest.mark.parametrize(
        ("outcome", "code"),
        [
            (Outcome(Ending.TIMED_OUT), TIMEOUT),
            (Outcome(Ending.OUT_OF_MEMORY), MEMORY),
            (Outcome(Ending.CRASHED, signal=Signals.SIGABRT), MEMORY),
            (Outcome(Ending.CRASHED, signal=Signals.SIGTRAP), MEMORY),
            (Outcome(Ending.CRASHED, exit_status=127), MEMORY),
            (Outcome(Ending.CRASHED, signal=Signals.SIGSEGV), FAILED),
            (Outcome(Ending.CRASHED, exit_status=1), FAILED),
            (Outcome(Ending.FAILED, error="RuntimeError", message="x" * 500), FAILED),
            (Outcome(Ending.FAILED, error="CannotOpen", message="PDFium error 3"), "PDF_UNREADABLE"),
            (Outcome(Ending.GARBLED), FAILED),
            (Outcome(Ending.DENIED), FAILED),
            (Outcome(Ending.TOO_MANY_FILES), FAILED),
            (Outcome(Ending.RESULT_TOO_LARGE), FAILED),
        ],
    )
    def test_an_ending_becomes_an_issue(self, outcome, code):
        issue = issue_of(outcome, "page 3")
        assert (issue.code, issue.place) == (code, "page 3")
        assert len(issue.detail) <= 200


class TestCodes:
    def test_every_code_of_an_inspection_is_registered_and_is_the_senders_fault(self):
        given = {value for name, value in vars(codes).items() if name.isupper()}
        assert given <= set(REGISTRY)
        assert {status_of(REGISTRY[each]) for each in given - {"PAGE_COUNT_EXCEEDED"}} == {400}
        assert status_of(REGISTRY["PAGE_COUNT_EXCEEDED"]) == 413
