"""What an endpoint's refusals mean: whether to send again, after how long, whose fault it was, what it may have cost.

Statuses mean different things to different vendors; the words that tell them apart stand here. Invariant: what is taken
from an answer into an error is masked and short.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.errors import ErrorCode, PenstockError

_QUOTA_WORDS = frozenset(
    {"insufficient_quota", "insufficient_balance", "billing_hard_limit_reached", "arrearage", "quota_exhausted"}
)
_FILTER_WORDS = frozenset(
    {"content_filter", "content_policy_violation", "data_inspection_failed", "datainspectionfailed"}
)
_LENGTH_CODES = frozenset({"context_length_exceeded", "string_above_max_length", "request_too_large"})
_LENGTH_WORDS = (
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "context size",
    "range of input length",
    "prompt is too long",
    "input is too long",
)


class Spent(StrEnum):
    """What a failed request may have cost."""

    NOTHING = "nothing"  # it was never sent, or was refused
    UNKNOWN = "unknown"  # it was sent and its answer got lost


class CallFailed(Exception):
    """One request has failed."""

    def __init__(self, code: ErrorCode, **details: Any) -> None:
        super().__init__(code.code)
        self.code = code
        self.details = {name: value for name, value in details.items() if value is not None}
        self.may_pass = False  # sending it again can help
        self.after: float | None = None  # seconds that the endpoint asked for
        self.spent = Spent.NOTHING
        self.is_too_fast = False
        self.is_hopeless = False  # no call with these settings can succeed
        self.complaint = ""  # what the endpoint says of the request itself, in lower case
        self.request_id: str | None = None

    def error(self) -> PenstockError:
        wait = {} if self.after is None else {"retry_after": round(self.after, 3)}
        return PenstockError(self.code, **self.details, **wait)


class TransportFault(CallFailed):
    """The way to the model, or its server, does not work. Only these count against it."""

    def __init__(self, reason: str, *, spent: Spent = Spent.NOTHING, **details: Any) -> None:
        super().__init__(error_codes.LLM_UNAVAILABLE, reason=reason, **details)
        self.may_pass = True
        self.spent = spent


def complaint_of(said: Any) -> Mapping[str, str]:
    """Code, type, param and message, as OpenAI nests them or as vLLM has them flat; nothing of it can be trusted."""
    body = said.get("error", said) if isinstance(said, dict) else said
    if isinstance(body, str):
        return {"message": body}
    if not isinstance(body, dict):
        return {}
    names = ("code", "type", "param", "message")
    return {name: str(body[name]) for name in names if isinstance(body.get(name), str | int)}


def failure_of(status: int, said: Any, shown: str) -> CallFailed:
    """For an answer that is an error. `shown` is what of it may be told."""
    complaint = complaint_of(said)
    words = {complaint.get("code", "").lower(), complaint.get("type", "").lower()}
    details: dict[str, Any] = {"status": status, "message": shown or None}
    if status == 402 or (status in {400, 403, 429} and words & _QUOTA_WORDS):
        return CallFailed(error_codes.LLM_QUOTA_EXHAUSTED, **details)
    if status in {401, 403}:
        failed = CallFailed(error_codes.LLM_AUTH_FAILED, **details)
        failed.is_hopeless = True
        return failed
    if status == 429:
        failed = CallFailed(error_codes.LLM_RATE_LIMITED, **details)
        failed.may_pass = failed.is_too_fast = True
        return failed
    if status == 408 or status >= 500:
        return TransportFault(f"HTTP_{status}", **details)
    if status == 409:
        failed = CallFailed(error_codes.LLM_UNAVAILABLE, reason="HTTP_409", **details)
        failed.may_pass = True
        return failed
    return _bad_request(status, complaint, details)


def _bad_request(status: int, complaint: Mapping[str, str], details: dict[str, Any]) -> CallFailed:
    text = " ".join(complaint.values()).lower()
    code = complaint.get("code", "").lower()
    if code in _FILTER_WORDS:
        return CallFailed(error_codes.LLM_REFUSED, reason="content_filter", **details)
    if status == 413 or code in _LENGTH_CODES or any(words in text for words in _LENGTH_WORDS):
        return CallFailed(error_codes.LLM_CONTEXT_TOO_LONG, **details)
    failed = CallFailed(error_codes.LLM_REQUEST_REFUSED, **details)
    failed.complaint = text[:4096] if status in {400, 422} else ""
    return failed
