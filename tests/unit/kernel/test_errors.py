"""The registry holds every frozen code, in both languages, with a remedy."""

import re

import pytest

from penstock.api.http_status import status_of
from penstock.kernel.error_codes import REGISTRY, SOURCE_REFUSED
from penstock.kernel.errors import Language, PenstockError, circumstances_of

# What clients were promised: code, HTTP status, severity.
FROZEN = """
FILE_SIZE_EXCEEDED 413 error
PAGE_COUNT_EXCEEDED 413 error
SECURITY_JAVASCRIPT_EMBEDDED 400 error
SECURITY_ENCRYPTED_PDF 400 error
FILE_HASH_DUPLICATE 409 warning
JOB_NOT_ORPHANED 409 warning
TASK_ALREADY_LOCKED 409 warning
TASK_LOCK_EXPIRED 409 warning
TASK_NOT_REVERTABLE 409 warning
ANNOTATION_VALIDATION_FAILED 400 error
CONFIG_VERSION_CONFLICT 409 warning
CONFIG_THRESHOLD_INVALID 400 error
LLM_BUDGET_EXHAUSTED 503 critical
LLM_CIRCUIT_OPEN 503 critical
LLM_RATE_LIMITED 429 warning
RATE_LIMITED 429 warning
INTERNAL_ERROR 500 error
SERVICE_UNAVAILABLE 503 critical
INVALID_MIME 400 error
EMPTY_PDF 400 error
SECURITY_PARSE_TIMEOUT 400 error
SECURITY_OBJECT_COUNT_EXCEEDED 400 error
UPLOAD_NOT_FOUND 404 error
OFFSET_MISMATCH 409 warning
CHECKSUM_FAILED 460 warning
REQUEUE_LIMIT 429 warning
JOB_TERMINAL 409 warning
DB_UNAVAILABLE 503 critical
REDIS_UNAVAILABLE 503 critical
DISK_FULL 503 critical
"""


class TestRegistry:
    @pytest.mark.parametrize("line", FROZEN.split("\n")[1:-1])
    def test_a_frozen_code_keeps_its_status_and_severity(self, line: str):
        code, status, severity = line.split()
        row = REGISTRY[code]
        assert (status_of(row), row.severity) == (int(status), severity)

    @pytest.mark.parametrize("row", REGISTRY.values(), ids=lambda row: row.code)
    def test_every_code_speaks_both_languages_and_says_what_to_do(self, row):
        chinese = re.compile(r"[\u4e00-\u9fff]")
        for sentence in (row.message, row.remedy):
            assert chinese.search(sentence.in_language(Language.ZH))
            assert not chinese.search(sentence.in_language(Language.EN))
            assert sentence.en.strip()
            assert not sentence.en.endswith(".")

    def test_an_error_says_its_code_and_details_in_logs(self):
        failure = PenstockError(REGISTRY["NOT_FOUND"], job_id="j1")
        assert str(failure) == "NOT_FOUND: There is no such thing (job_id='j1')"


class TestCircumstances:
    def test_they_are_what_the_sentence_does_not_say_without_the_books(self):
        failure = PenstockError(SOURCE_REFUSED, status=400, answer="no\x00", reason=None, evidence={"request": {}})
        assert circumstances_of(failure) == "status: 400, answer: no\N{REPLACEMENT CHARACTER}"

    def test_findings_are_told_by_place_and_not_as_code(self):
        errors = [
            {"path": "/total", "message": "is missing", "message_zh": "缺失"},
            {"code": "X", "place": "page 2", "detail": "a form that draws itself"},
        ]
        told = circumstances_of(PenstockError(REGISTRY["ETL_RESULT_INVALID"], errors=errors))
        assert told == "errors: /total is missing; page 2 a form that draws itself"

    def test_of_other_failures_they_are_all_there_is(self):
        assert circumstances_of(ValueError("so")) == "ValueError: so"
