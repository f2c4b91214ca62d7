"""Errors as gRPC clients see them: a standard status, with our code, sentence and remedy in the standard details."""

from collections.abc import Iterator, Mapping
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from penstock.kernel import error_codes, json
from penstock.kernel.errors import ErrorCode, Kind, Language, PenstockError

DOMAIN = "penstock"
DETAILS = "grpc-status-details-bin"
_LONGEST = 300  # of one detail: they travel as headers, which clients limit to a few KiB
_MOST = 10

BY_KIND: Mapping[Kind, grpc.StatusCode] = {
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Kind.DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Kind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Kind.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.BROKEN: grpc.StatusCode.INTERNAL,
}
BY_CODE: Mapping[ErrorCode, grpc.StatusCode] = {
    error_codes.TOKEN_MISSING: grpc.StatusCode.UNAUTHENTICATED,
    error_codes.TOKEN_INVALID: grpc.StatusCode.UNAUTHENTICATED,
    error_codes.RATE_LIMITED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    error_codes.UPLOAD_SLOTS_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    error_codes.DIRECT_UPLOAD_DIFFERS: grpc.StatusCode.ALREADY_EXISTS,
    error_codes.STATE_CHANGED: grpc.StatusCode.ABORTED,
    error_codes.DIRECT_UPLOADS_OFF: grpc.StatusCode.FAILED_PRECONDITION,  # trying again would be in vain
}


def status_of(code: ErrorCode) -> grpc.StatusCode:
    return BY_CODE.get(code) or BY_KIND[code.kind]


def described(failure: PenstockError, language: Language, request_id: str) -> bytes:
    """A serialised google.rpc.Status."""
    code = failure.code
    status = status_pb2.Status(code=status_of(code).value[0], message=message_of(code))
    for detail in _details(failure, language, request_id):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    found: bytes = status.SerializeToString()
    return found


def message_of(code: ErrorCode) -> str:
    """For the people who write the client; users are shown the one in their language."""
    return f"{code.code}: {code.message.en}"


def _details(failure: PenstockError, language: Language, request_id: str) -> Iterator[Any]:
    code = failure.code
    facts = {name: _text(value) for name, value in list(failure.details.items())[:_MOST]}
    told = {"remedy": code.remedy.in_language(language), "severity": code.severity.value, "request_id": request_id}
    yield error_details_pb2.ErrorInfo(reason=code.code, domain=DOMAIN, metadata={**facts, **told})
    yield error_details_pb2.LocalizedMessage(locale=language.value, message=code.message.in_language(language))
    fields = failure.details.get("fields")
    if isinstance(fields, Mapping):
        violation = error_details_pb2.BadRequest.FieldViolation
        shown = [violation(field=str(name), description=_text(why)) for name, why in list(fields.items())[:_MOST]]
        yield error_details_pb2.BadRequest(field_violations=shown)
    wait = failure.details.get("retry_after")
    if isinstance(wait, int | float):
        delay = Duration()
        delay.FromMilliseconds(max(0, round(wait * 1000)))
        yield error_details_pb2.RetryInfo(retry_delay=delay)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value[:_LONGEST]
    try:
        return json.dumps(value)[:_LONGEST]
    except TypeError:  # what JSON does not know: its text will do
        return str(value)[:_LONGEST]
