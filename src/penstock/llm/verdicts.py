"""Whether an answer fits the schema that was asked for; nothing that does not fit it is ever called a value.

The schema is a user's: `forms_of` and `verdict_of` run in the sandbox, called by `judge.py`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from referencing.exceptions import Unresolvable

from penstock.kernel import error_codes, json
from penstock.kernel.confined_calls import confined
from penstock.kernel.errors import ErrorCode, PenstockError, Sentence
from penstock.kernel.schemas import draft_of, errors_of, fault, meta_errors_of, pointer
from penstock.kernel.step_budget import spending_on
from penstock.llm.answers import NotReadable, json_in
from penstock.llm.strict import is_object, strict_form, without_padding, wrapped

_MOST_ERRORS = 20
_LONGEST_MESSAGE = 200
_Errors = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Without a code, `value` is the answer."""

    code: ErrorCode | None = None
    value: Any = None
    errors: _Errors = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def error(self, model: str) -> PenstockError:
        if self.code is None:
            raise ValueError("nothing is wrong")
        shown = {"errors": list(self.errors)} if self.errors else {}
        return PenstockError(self.code, model=model, **shown, **self.details)


class Target:
    """The schema of one question in all the forms it is needed in."""

    def __init__(self, schema: Mapping[str, Any], *, is_known: bool = False) -> None:
        """`is_known`: it was found to be right before."""
        if draft_of(schema) is None:
            raise _unusable("its draft is not known here")
        try:
            wrong = [] if is_known else meta_errors_of(schema)
            self.digest = hashlib.sha256(json.dump_bytes(schema)).hexdigest()
        except (RecursionError, TypeError) as failure:
            raise _unusable(str(failure)) from None
        if wrong:
            raise _unusable(f"{pointer(wrong[0][0])} {wrong[0][1].en}".strip())
        self._schema = schema
        outer = None if is_object(schema) else wrapped(schema)
        self.is_wrapped = outer is not None
        self.is_sendable = is_object(schema) or self.is_wrapped
        self.shown: Mapping[str, Any] = outer or schema
        self.strict = strict_form(self.shown)

    def verdict(self, content: str) -> Verdict:
        try:
            value = json_in(content)
        except NotReadable as wrong:
            said = Sentence(f"不是 JSON：{wrong}"[:_LONGEST_MESSAGE], f"not JSON: {wrong}"[:_LONGEST_MESSAGE])
            return _invalid([fault("", said)])
        if self.is_wrapped and isinstance(value, dict) and value.keys() == {"value"}:
            value = value["value"]
        try:
            value = without_padding(value, self._schema, self._schema)
            errors = errors_of(self._schema, value)
        except RecursionError:
            errors = [fault("", Sentence("嵌套过深", "is nested too deeply"))]
        except (Unresolvable, ValueError) as wrong:  # a reference to elsewhere, or a pattern that is none
            raise _unusable(str(wrong)) from None
        return _invalid(errors[:_MOST_ERRORS]) if errors else Verdict(value=value)


class Forms(msgspec.Struct, frozen=True):
    """The forms of a schema as they are sent to an endpoint; `strict` is null where the subset cannot say it."""

    digest: str
    is_sendable: bool
    shown: bytes
    strict: bytes


class Judged(msgspec.Struct, frozen=True):
    """Without errors, `value` is JSON that fits."""

    value: bytes = b"null"
    errors: list[dict[str, str]] = []


@confined
def forms_of(schema: bytes) -> Forms:
    """LLM_REQUEST_REFUSED for what is no schema."""
    with spending_on("/json_schema"):
        target = Target(json.loads(schema))
    return Forms(target.digest, target.is_sendable, json.dump_bytes(target.shown), json.dump_bytes(target.strict))


@confined
def verdict_of(schema: bytes, content: str) -> Judged:
    with spending_on("/json_schema"):
        verdict = Target(json.loads(schema), is_known=True).verdict(content)
    if verdict.code is None:
        return Judged(json.dump_bytes(verdict.value))
    return Judged(errors=[dict(each) for each in verdict.errors])


def _invalid(errors: _Errors) -> Verdict:
    return Verdict(error_codes.LLM_OUTPUT_INVALID, errors=errors)


def _unusable(reason: str) -> PenstockError:
    shown = {"reason": "SCHEMA_INVALID", "message": reason[:_LONGEST_MESSAGE]}
    return PenstockError(error_codes.LLM_REQUEST_REFUSED, **shown)
