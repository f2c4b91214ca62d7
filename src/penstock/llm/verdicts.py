"""Whether a completion is an answer. The schema is the judge; nothing that does not fit it is ever called a value."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsonschema import SchemaError
from referencing.exceptions import Unresolvable

from penstock.kernel import error_codes, json
from penstock.kernel.errors import ErrorCode, PenstockError, Sentence
from penstock.kernel.schemas import DRAFTS, draft_of, errors_of, fault
from penstock.llm.answers import Completion, NotReadable, json_in
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

    def __init__(self, schema: Mapping[str, Any]) -> None:
        draft = draft_of(schema)
        if draft is None:
            raise _unusable("its draft is not known here")
        try:
            DRAFTS[draft].check_schema(dict(schema))
            self.digest = hashlib.sha256(json.dump_bytes(schema)).hexdigest()
        except (SchemaError, RecursionError, TypeError) as wrong:
            raise _unusable(str(wrong)) from None
        self._schema = schema
        outer = None if is_object(schema) else wrapped(schema)
        self._is_wrapped = outer is not None
        self.is_sendable = is_object(schema) or self._is_wrapped
        self.shown: Mapping[str, Any] = outer or schema
        self.strict = strict_form(self.shown)

    def verdict(self, content: str) -> Verdict:
        try:
            value = json_in(content)
        except NotReadable as wrong:
            said = Sentence(f"不是 JSON：{wrong}"[:_LONGEST_MESSAGE], f"not JSON: {wrong}"[:_LONGEST_MESSAGE])
            return _invalid([fault("", said)])
        if self._is_wrapped and isinstance(value, dict) and value.keys() == {"value"}:
            value = value["value"]
        try:
            value = without_padding(value, self._schema, self._schema)
            errors = errors_of(self._schema, value)
        except RecursionError:
            errors = [fault("", Sentence("嵌套过深", "is nested too deeply"))]
        except (Unresolvable, ValueError) as wrong:  # a reference to elsewhere, or a pattern that is none
            raise _unusable(str(wrong)) from None
        return _invalid(errors[:_MOST_ERRORS]) if errors else Verdict(value=value)


def judge(completion: Completion, target: Target | None) -> Verdict:
    """What was said about the answer comes before the answer."""
    if completion.refusal is not None:
        return Verdict(error_codes.LLM_REFUSED, details={"reason": "refusal"})
    if completion.finish_reason == "content_filter":
        return Verdict(error_codes.LLM_REFUSED, details={"reason": "content_filter"})
    if completion.finish_reason == "length":
        return Verdict(error_codes.LLM_TRUNCATED, details={"output_tokens": completion.output_tokens})
    if not completion.content.strip():
        return Verdict(error_codes.LLM_EMPTY, details={"finish_reason": completion.finish_reason})
    return Verdict(value=completion.content) if target is None else target.verdict(completion.content)


def _invalid(errors: _Errors) -> Verdict:
    return Verdict(error_codes.LLM_OUTPUT_INVALID, errors=errors)


def _unusable(reason: str) -> PenstockError:
    shown = {"reason": "SCHEMA_INVALID", "message": reason[:_LONGEST_MESSAGE]}
    return PenstockError(error_codes.LLM_REQUEST_REFUSED, **shown)
