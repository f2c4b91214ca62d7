"""One root error. A code says what happened, its kind says what the edges make of it.

The table of codes is `error_codes/`. Domains raise `PenstockError(error_codes.X, detail=...)`; only the
edges know HTTP, gRPC or retry policies. The sentence for people is chosen from the table at the edge, so
a code means the same in every language.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What went wrong, in the widest terms; each edge maps this once."""

    INVALID = "invalid"  # the caller sent something that can never work
    DENIED = "denied"  # the caller may not
    NOT_FOUND = "not_found"  # no such thing, or not the caller's
    CONFLICT = "conflict"  # the thing is not in a state that allows this
    UNAVAILABLE = "unavailable"  # not now: something is away, or the caller is too fast
    BROKEN = "broken"  # our own fault


class Severity(StrEnum):
    """How loudly a screen should say it (toast, toast, dialog, banner)."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class Language(StrEnum):
    """The languages every sentence exists in."""

    ZH = "zh"
    EN = "en"


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing said to people, in each language."""

    zh: str
    en: str

    def in_language(self, language: Language) -> str:
        return self.zh if language is Language.ZH else self.en


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A row of the registry: the code never changes, whatever the language."""

    code: str
    kind: Kind
    severity: Severity
    retryable: bool
    message: Sentence
    remedy: Sentence  # what the reader can do about it


class PenstockError(Exception):
    """The only error our own code raises on purpose."""

    def __init__(self, code: ErrorCode, **details: Any) -> None:
        super().__init__(f"{code.code}: {code.message.en}{_shown(details)}")
        self.code = code
        self.details: Mapping[str, Any] = details

    @property
    def kind(self) -> Kind:
        return self.code.kind


def raise_unless_unavailable(failure: PenstockError) -> None:
    """For loops that wait until a server is back: whatever else is wrong must not be waited for."""
    if failure.kind is not Kind.UNAVAILABLE:
        raise failure


def _shown(details: Mapping[str, Any]) -> str:
    if not details:
        return ""
    return " (" + ", ".join(f"{key}={value!r}" for key, value in details.items()) + ")"


def reason_of(failure: BaseException) -> str:
    """What a failure says of itself, fit for a text column: short, and without what PostgreSQL cannot store."""
    return _storable(f"{type(failure).__name__}: {failure}")


def circumstances_of(failure: BaseException) -> str:
    """What the sentence of its code does not say, for people: its details, less those that are books of their own."""
    if not isinstance(failure, PenstockError):
        return reason_of(failure)
    plain = {key: value for key, value in failure.details.items() if value is not None and not isinstance(value, dict)}
    return _storable(", ".join(f"{key}: {_listed(value)}" for key, value in plain.items()))


def _listed(value: Any) -> Any:
    """A list of findings as people read it: where, and what."""
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        return value
    parts = (("path", "place", "key"), ("message", "detail", "message_en"))
    told = (" ".join(str(next((each[n] for n in names if each.get(n)), "")) for names in parts) for each in value)
    return "; ".join(each.strip() for each in told)


def _storable(text: str) -> str:
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()[:500]
