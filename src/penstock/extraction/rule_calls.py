"""All that is done with what a merchant wrote, as functions that the sandbox runs. Called by `rule_sandbox.py` only.

What a merchant wrote comes as JSON bytes: msgpack has no room for large numbers and half letters, which then have to be
named as problems. Pages come some at a time; `state` is what the last call gave back, opaque to the caller.
"""

import json as plain_json
from typing import Any

import msgspec

from penstock.extraction import rule_content
from penstock.extraction.field_map import wanted_of
from penstock.extraction.markdown_page import page_of_markdown
from penstock.extraction.merging import merge
from penstock.extraction.places import Search
from penstock.extraction.ports import Place
from penstock.extraction.relaxing import without_unknowns
from penstock.extraction.rule_match import Findings
from penstock.kernel import error_codes, json
from penstock.kernel.confined_calls import confined
from penstock.kernel.errors import PenstockError
from penstock.kernel.schemas import canonical, errors_of
from penstock.kernel.step_budget import allow, spending_on
from penstock.pdf.pages.model import Page

_SHOWN_ERRORS = 50
_STEPS_PER_BYTE = 2  # of answers that are merged, on top of the budget


class RuleCheck(msgspec.Struct):
    """Without problems the content may be stored. `is_same`: it says what the rule said before."""

    problems: list[dict[str, str]]
    is_same: bool = False


class Batch(msgspec.Struct):
    """Some pages of a document in order; `markdown` instead of them where the reader gave none."""

    pages: list[Page] = []
    markdown: str | None = None
    is_last: bool = True


class Made(msgspec.Struct):
    """With `state` there is more to look at; else `data` is JSON that fits the schema, with places by pointer."""

    state: bytes = b""
    data: bytes = b""
    places: dict[str, list[Place]] = {}
    places_found: int = 0
    conflicts: bytes = b"[]"


class Answers(msgspec.Struct):
    """What a model said of the parts of one document, as JSON. `is_whole`: one answer, for all of it."""

    schema: bytes
    parts: bytes
    is_whole: bool = True


class _Answered(msgspec.Struct):
    data: msgspec.Raw
    conflicts: msgspec.Raw
    search: msgspec.Raw | None = None


_batches = msgspec.msgpack.Decoder(Batch)
_answers = msgspec.msgpack.Decoder(Answers)


@confined
def check_rule(content: bytes, modes: list[str], before: bytes | None) -> RuleCheck:
    """Every problem of a rule that is to be written. `before`: what it says now."""
    said = plain_json.loads(content)
    problems = rule_content.problems_of(said, modes)
    if problems or before is None:
        return RuleCheck(problems)
    allow(len(content) + len(before))
    return RuleCheck([], is_same=canonical(said) == canonical(plain_json.loads(before)))


@confined
def match_pages(schema: bytes, options: bytes, state: bytes, batch: bytes) -> Made:
    """The mode `rules`. ETL_RESULT_INVALID when all pages are seen and the result does not fit."""
    wanted, given = json.loads(schema), _batches.decode(batch)
    with spending_on("/json_schema"):
        findings = Findings(wanted_of(wanted, json.loads(options)))
    if state:
        findings.go_on_from(state)
    for page in given.pages if given.markdown is None else [page_of_markdown(given.markdown)]:
        findings.look_at(page)
    if not given.is_last:
        return Made(state=findings.state())
    data, places = findings.result()
    _check(wanted, data, error_codes.ETL_RESULT_INVALID)
    return Made(data=json.dump_bytes(data), places=places if given.markdown is None else {}, places_found=len(places))


@confined
def finish_answers(answers: bytes, state: bytes, batch: bytes) -> Made:
    """The mode `llm`: answers are made one, checked, and looked for on the pages. LLM_OUTPUT_INVALID."""
    given = _batches.decode(batch)
    kept = msgspec.json.decode(state, type=_Answered) if state else _answered(_answers.decode(answers))
    search = Search(json.loads(bytes(kept.data)))
    if kept.search is not None:
        search.go_on_from(bytes(kept.search))
    for page in given.pages:
        search.look_at(page)
    if not given.is_last:
        kept.search = msgspec.Raw(search.state())
        return Made(state=msgspec.json.encode(kept))
    places = search.places()
    return Made(data=bytes(kept.data), places=places, places_found=len(places), conflicts=bytes(kept.conflicts))


@confined
def check_value(schema: bytes, value: bytes) -> list[dict[str, str]]:
    """What is wrong with a value by a rule's schema."""
    with spending_on("/json_schema"):
        return errors_of(json.loads(schema), json.loads(value))


def _answered(answers: Answers) -> _Answered:
    schema, parts, conflicts = json.loads(answers.schema), json.loads(answers.parts), list[Any]()
    data = parts[0]
    with spending_on("/json_schema"):
        if not answers.is_whole:
            allow(_STEPS_PER_BYTE * len(answers.parts))
            merged = merge(schema, parts)
            data, conflicts = without_unknowns(schema, merged.data), merged.conflicts
        _check(schema, data, error_codes.LLM_OUTPUT_INVALID)
    return _Answered(msgspec.Raw(json.dump_bytes(data)), msgspec.Raw(json.dump_bytes(conflicts)))


def _check(schema: Any, data: Any, code: Any) -> None:
    with spending_on("/json_schema"):
        errors = errors_of(schema, data)
    if errors:
        raise PenstockError(code, errors=errors[:_SHOWN_ERRORS] if code is error_codes.ETL_RESULT_INVALID else errors)
