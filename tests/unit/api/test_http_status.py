"""Statuses of the edge's own codes, written out a second time, by hand; those of the frozen ones: test_errors.py."""

import pytest

from penstock.api.http_status import BY_KIND, status_of
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.errors import Kind

STATUSES = {
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
    @pytest.mark.parametrize(("code", "status"), STATUSES.items())
    def test_a_code_keeps_its_status(self, code, status):
        assert status_of(REGISTRY[code]) == status

    @pytest.mark.parametrize("code", REGISTRY.values(), ids=lambda code: code.code)
    def test_every_code_has_an_error_status(self, code):
        assert 400 <= status_of(code) < 600

    def test_every_kind_has_a_status(self):
        assert set(BY_KIND) == set(Kind)
