"""Judges completions: what the endpoint says of its answer comes first, then the schema of the question.

Schemas are what users wrote and answers what a stranger's document made a model say, so both are looked at in the
sandbox. The forms of a schema are remembered: a document in many chunks asks by one schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.kernel import error_codes, json
from penstock.kernel.confined_calls import ConfinedCalls
from penstock.llm.answers import Completion
from penstock.llm.verdicts import Forms, Judged, Verdict

_CALLS = "penstock.llm.verdicts"
_MOST_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """The schema of one question in all the forms that it is needed in, and whose it is."""

    schema: bytes
    tenant: str
    digest: str
    is_sendable: bool
    shown: Mapping[str, Any]
    strict: Mapping[str, Any] | None


class Judge:
    """One per process."""

    def __init__(self, calls: ConfinedCalls) -> None:
        self._calls = calls
        self._known: dict[bytes, Forms] = {}

    async def wanted(self, schema: Mapping[str, Any], tenant: str) -> Wanted:
        """LLM_REQUEST_REFUSED for a schema that cannot be used."""
        said = json.dump_bytes(schema)
        forms = self._known.get(said)
        if forms is None:
            forms = await self._calls.call(f"{_CALLS}:forms_of", said, tenant=tenant, returns=Forms)
            if len(self._known) >= _MOST_REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[said] = forms
        shown, strict = json.loads(forms.shown), json.loads(forms.strict)
        return Wanted(said, tenant, forms.digest, forms.is_sendable, shown, strict)

    async def judge(self, completion: Completion, wanted: Wanted | None) -> Verdict:
        said = _said_of_itself(completion)
        if said is not None:
            return said
        if wanted is None:
            return Verdict(value=completion.content)
        content = completion.content.encode(errors="replace").decode()
        function = f"{_CALLS}:verdict_of"
        judged = await self._calls.call(function, wanted.schema, content, tenant=wanted.tenant, returns=Judged)
        if judged.errors:
            return Verdict(error_codes.LLM_OUTPUT_INVALID, errors=judged.errors)
        return Verdict(value=json.loads(judged.value))


def _said_of_itself(completion: Completion) -> Verdict | None:
    """A refusal, a cut or an empty answer, as the endpoint reports it; None: there is something to look at."""
    if completion.refusal is not None:
        return Verdict(error_codes.LLM_REFUSED, details={"reason": "refusal"})
    if completion.finish_reason == "content_filter":
        return Verdict(error_codes.LLM_REFUSED, details={"reason": "content_filter"})
    if completion.finish_reason == "length":
        return Verdict(error_codes.LLM_TRUNCATED, details={"output_tokens": completion.output_tokens})
    if not completion.content.strip():
        return Verdict(error_codes.LLM_EMPTY, details={"finish_reason": completion.finish_reason})
    return None
