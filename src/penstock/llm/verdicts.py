"""Whether a completion is an answer. The schema is the judge; nothing that does not fit it is ever called a value.

References to other documents are not followed: a schema comes from a rule, and a rule may not make us fetch.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from penstock.kernel import error_codes, json
from penstock.kernel.errors import ErrorCode, PenstockError
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
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(dict(schema))
            self.digest = hashlib.sha256(json.dump_bytes(schema)).hexdigest()
        except (jsonschema.SchemaError, RecursionError, TypeError) as wrong:
            raise PenstockError(
                error_codes.LLM_REQUEST_REFUSED, reason="SCHEMA_INVALID", message=str(wrong)[:_LONGEST_MESSAGE]
            ) from None
        self._schema = schema
        self._validator: Validator = kind(schema, registry=Registry())
        outer = None if is_object(schema) else wrapped(schema)
        self._is_wrapped = outer is not None
        self.is_sendable = is_object(schema) or self._is_wrapped
        self.shown: Mapping[str, Any] = outer or schema
        self.strict = strict_form(self.shown)

    def verdict(self, content: str) -> Verdict:
        try:
            value = json_in(content)
        except NotReadable as wrong:
            return _invalid([{"path": "", "message": f"not JSON: {wrong}"[:_LONGEST_MESSAGE]}])
        if self._is_wrapped and isinstance(value, dict) and value.keys() == {"value"}:
            value = value["value"]
        try:
            value = without_padding(value, self._schema, self._validator)
            errors = self._errors(value)
        except RecursionError:
            errors = [{"path": "", "message": "it is nested too deeply"}]
        except Unresolvable as wrong:
            reference = {"reason": "SCHEMA_INVALID", "message": f"cannot follow {wrong.ref}"[:_LONGEST_MESSAGE]}
            raise PenstockError(error_codes.LLM_REQUEST_REFUSED, **reference) from None
        return _invalid(errors) if errors else Verdict(value=value)

    def _errors(self, value: Any) -> list[dict[str, str]]:
        found = []
        for error in self._validator.iter_errors(value):
            found.append({"path": _pointer(error.absolute_path), "message": error.message[:_LONGEST_MESSAGE]})
            if len(found) == _MOST_ERRORS:
                break
        return sorted(found, key=lambda error: error["path"])


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


def _pointer(path: Any) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
