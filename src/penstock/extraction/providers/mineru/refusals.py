"""What goes wrong with MinerU, sorted: wait and try again, the key, the quota, never, or not understood.

Two outcomes are ours to mend and have exceptions of their own: a task that the service no longer knows, and a
document with more pages than it takes. Invariant: no message of a service goes further than `said`, which is short
and has lost whatever looks like our token.
"""

from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_LONGEST = 300
_TOKEN = frozenset({"A0202", "A0211"})
_LATER = frozenset({-10001, -60001, -60007, -60008, -60009})
_QUOTA = frozenset({-60018, -60019})
_TOO_MANY_PAGES = -60006
_NOT_PARSED = -60010
_NO_FILE = -60011


class TaskLost(Exception):
    """The service does not know the task: restarted, kept for too long, or another kind of server by now."""


class TooManyPages(Exception):
    """The service wants the document in parts."""


class ParseFailed(Exception):
    """The service tried and failed; worth one more try."""

    def __init__(self, code: Any, message: str) -> None:
        super().__init__(code)
        self.code, self.message = code, message


class FileMissing(Exception):
    """The service says that nothing was uploaded."""


class LinkDead(Exception):
    """A link that the service gave leads nowhere any more."""


class ZipDamaged(Exception):
    """What was fetched is not a whole archive."""


def said(text: Any, token: str = "") -> str:
    """A stranger's words, fit for an error."""
    plain = "".join(letter if letter.isprintable() else " " for letter in str(text or ""))
    if token:
        plain = plain.replace(token, "…")
    return plain[:_LONGEST]


def unavailable(reason: str, **details: Any) -> PenstockError:
    return PenstockError(error_codes.OCR_UNAVAILABLE, reason=reason, **details)


def not_understood(reason: str, **details: Any) -> PenstockError:
    return PenstockError(error_codes.OCR_ANSWER_INVALID, reason=reason, **details)


def refused(code: Any, message: str = "") -> PenstockError:
    return PenstockError(error_codes.OCR_REFUSED, upstream_code=code, upstream_message=message)


def not_let_in(code: Any) -> PenstockError:
    return PenstockError(error_codes.OCR_AUTH_FAILED, upstream_code=code)


def for_business_code(code: Any, message: str) -> Exception:
    """The hosted service's own codes, which come with HTTP 200 and in the rows of a batch."""
    if isinstance(code, str) and code.lstrip("-").isdigit():
        code = int(code)
    mended = {
        _TOO_MANY_PAGES: TooManyPages(),
        _NOT_PARSED: ParseFailed(code, message),
        _NO_FILE: FileMissing(),
    }
    if code in mended:
        return mended[code]
    if code in _TOKEN:
        return not_let_in(code)
    if code in _LATER:
        return unavailable("SERVICE_BUSY", upstream_code=code)
    if code in _QUOTA:
        return PenstockError(error_codes.OCR_QUOTA_EXHAUSTED, upstream_code=code)
    return refused(code, message)


def for_status(status: int, code: Any, message: str) -> Exception:
    """HTTP statuses, for every kind of server."""
    if status in {401, 403}:
        return not_let_in(code or status)
    if status in {408, 425, 429} or status >= 500:
        return unavailable("SERVICE_BUSY", upstream_code=code or status)
    if status < 400:
        return not_understood("STATUS_UNEXPECTED", upstream_code=status)
    return refused(code or status, message)
