"""The frozen registry's statuses, written out a second time, by hand, from 001 §4.3 and 000 §7 with D10."""

import pytest

from penstock.api.http_status import BY_KIND, status_of
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.errors import Kind

FROZEN = {
    "FILE_SIZE_EXCEEDED": 413,
    "PAGE_COUNT_EXCEEDED": 413,
    "SECURITY_JAVASCRIPT_EMBEDDED": 400,
    "SECURITY_ENCRYPTED_PDF": 400,
    "SECURITY_PARSE_TIMEOUT": 400,
    "SECURITY_OBJECT_COUNT_EXCEEDED": 400,
    "INVALID_MIME": 400,
    "EMPTY_PDF": 400,
    "FILE_HASH_DUPLICATE": 409,
    "UPLOAD_NOT_FOUND": 404,
    "OFFSET_MISMATCH": 409,
    "CHECKSUM_FAILED": 460,
    "JOB_NOT_ORPHANED": 409,
    "REQUEUE_LIMIT": 429,
    "JOB_TERMINAL": 409,
    "TASK_ALREADY_LOCKED": 409,
    "TASK_LOCK_EXPIRED": 409,
    "TASK_NOT_REVERTABLE": 409,
    "ANNOTATION_VALIDATION_FAILED": 400,
    "CONFIG_VERSION_CONFLICT": 409,
    "CONFIG_THRESHOLD_INVALID": 400,
    "LLM_BUDGET_EXHAUSTED": 503,
    "LLM_CIRCUIT_OPEN": 503,
    "LLM_RATE_LIMITED": 429,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
    "SERVICE_UNAVAILABLE": 503,
    "DB_UNAVAILABLE": 503,
    "REDIS_UNAVAILABLE": 503,
    "DISK_FULL": 503,
    "TOKEN_MISSING": 401,
    "TOKEN_INVALID": 401,
    "SIGN_IN_CODE_INVALID": 401,
    "ROLE_DENIED": 403,
    "MERCHANT_DENIED": 403,
    "ORIGIN_DENIED": 403,
    "REQUEST_INVALID": 400,
    "REQUEST_TOO_LARGE": 413,
    "CONTENT_TYPE_INVALID": 415,
    "METHOD_NOT_ALLOWED": 405,
    "ROUTE_NOT_FOUND": 404,
}


class TestStatuses:
    @pytest.mark.parametrize(("code", "status"), FROZEN.items())
    def test_a_frozen_code_keeps_its_status(self, code, status):
        assert status_of(REGISTRY[code]) == status

    @pytest.mark.parametrize("code", REGISTRY.values(), ids=lambda code: code.code)
    def test_every_code_has_an_error_status(self, code):
        assert 400 <= status_of(code) < 600

    def test_every_kind_has_a_status(self):
        assert set(BY_KIND) == set(Kind)
