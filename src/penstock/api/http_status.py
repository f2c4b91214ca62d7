"""Error → HTTP status: by kind, and by code where a code has its own."""

from collections.abc import Mapping

from penstock.kernel import error_codes
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
    error_codes.TOKEN_MISSING: 401,
    error_codes.TOKEN_INVALID: 401,
    error_codes.SIGN_IN_CODE_INVALID: 401,
    error_codes.METHOD_NOT_ALLOWED: 405,
    error_codes.REQUEST_TOO_LARGE: 413,
    error_codes.FILE_SIZE_EXCEEDED: 413,
    error_codes.PAGE_COUNT_EXCEEDED: 413,
    error_codes.CONTENT_TYPE_INVALID: 415,
    error_codes.UPLOAD_STALLED: 408,
    error_codes.UPLOAD_GONE: 410,
    error_codes.TUS_VERSION_UNSUPPORTED: 412,
    error_codes.UPLOAD_LENGTH_EXCEEDED: 413,
    error_codes.UPLOAD_LOCKED: 423,
    error_codes.UPLOAD_SLOTS_FULL: 429,
    error_codes.ETL_FILE_TYPE: 415,
    error_codes.ETL_FILE_TOO_LARGE: 413,
    error_codes.ETL_QUEUE_FULL: 429,
    error_codes.ETL_QUEUE_SHARE_FULL: 429,
    error_codes.IDEMPOTENCY_KEY_REUSED: 422,
    error_codes.RATE_LIMITED: 429,
    error_codes.REQUEUE_LIMIT: 429,
    error_codes.LLM_RATE_LIMITED: 429,
    error_codes.CHECKSUM_FAILED: 460,  # the tus checksum extension's own
}


def status_of(code: ErrorCode) -> int:
    return BY_CODE.get(code) or BY_KIND[code.kind]
