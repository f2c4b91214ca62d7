"""Limits what a large JSON body may cost: reading, checking and answering it holds the event loop that all share.

The size in bytes says little. A MiB of text is read in 2 ms; a MiB of `[],[],` is 350,000 lists, which took half a
second, most of it to collect garbage. So the marks are counted that JSON is built of, before anything is read.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

MOST_MARKS = 96_000  # the densest rule that may be kept has about 65,000, with those in its texts
MOST_DIGITS = 1_000  # of one number: to read or write one takes the square of its length
_MARKS = tuple(bytes([each]) for each in b"[]{}:,")
_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER = b"0" * (MOST_DIGITS + 1)
_MOST_FIELDS = 100


class BodyCost:
    """The cost of one body, known as its parts arrive."""

    def __init__(self) -> None:
        self._marks = 0
        self._end = b""

    def add(self, part: bytes) -> None:
        """Raises REQUEST_TOO_LARGE once it is too much."""
        self._marks += sum(part.count(mark) for mark in _MARKS)
        if self._marks > MOST_MARKS:
            reason = f"the body has more than {MOST_MARKS:,} of the marks [ ] {{ }} : ,"
            raise PenstockError(error_codes.REQUEST_TOO_LARGE, limit_marks=MOST_MARKS, reason=reason)
        digits = self._end + part.translate(_AS_ZEROS)
        if _LONG_NUMBER in digits:
            reason = f"the body has more than {MOST_DIGITS:,} digits in a row"
            raise PenstockError(error_codes.REQUEST_TOO_LARGE, limit_digits=MOST_DIGITS, reason=reason)
        self._end = digits[-MOST_DIGITS:]


def few_fields(given: Any) -> Any:
    """Refuses, before each is looked at, very many fields as one problem: to tell of one takes 10 microseconds."""
    if isinstance(given, dict) and len(given) > _MOST_FIELDS:
        raise PydanticCustomError("too_many_fields", "has more than {most} fields", {"most": _MOST_FIELDS})
    return given


class StrictBody(BaseModel):
    """A body, or a part of one, without unknown fields."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:
        return few_fields(given)
