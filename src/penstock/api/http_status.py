"""Error → HTTP status: by kind, and by code where the frozen registry says otherwise (001 §4.3, 000 §7, D10)."""

from collections.abc import Mapping

from penstock.kernel import error_codes as codes
from penstock.kernel.errors import ErrorCode, Kind

BY_KIND: Mapping[Kind, int] = {
    Kind.INVALID: 400,
    Kind.DENIED: 403,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.UNAVAILABLE: 503,
    Kind.BROKEN: 500,
}

BY_CODE: Mapping[ErrorCode, int] = {
    codes.TOKEN_MISSING: 401,
    codes.TOKEN_INVALID: 401,
    codes.SIGN_IN_CODE_INVALID: 401,
    codes.METHOD_NOT_ALLOWED: 405,
    codes.REQUEST_TOO_LARGE: 413,
    codes.FILE_SIZE_EXCEEDED: 413,
    codes.PAGE_COUNT_EXCEEDED: 413,
    codes.CONTENT_TYPE_INVALID: 415,
    codes.RATE_LIMITED: 429,
    codes.REQUEUE_LIMIT: 429,
    codes.LLM_RATE_LIMITED: 429,
    codes.CHECKSUM_FAILED: 460,  # the tus checksum extension's own
}


def status_of(code: ErrorCode) -> int:
    return BY_CODE.get(code) or BY_KIND[code.kind]
