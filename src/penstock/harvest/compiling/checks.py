"""Runs the nine rules and collects every problem, so that a file is corrected once and not nine times."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from penstock.harvest.compiling.merge import Level, Merged
from penstock.harvest.compiling.problems import Case, Problem, Rule, origin_text
from penstock.harvest.compiling.rules import CODES, RULES
from penstock.harvest.spec import Sections

_BY_SECTION = {
    "http": 1, "auth": 1, "pagination": 2, "count": 2, "window": 3, "batching": 4, "response": 5, "mapping": 5,
    "retry": 6, "rateLimit": 6, "planning": 6, "params": 8, "expr": 9,
}  # fmt: skip
_NOT_A_CODE = {"literal_error", "enum"}


def check(case: Case) -> list[Problem]:
    return [
        Problem(rule.number, rule.name, f"{part.prefix}{said.key}", part.origin(said.key), said.zh, said.en)
        for rule in RULES
        for part, said in rule.check(case)
    ]


def read(merged: Merged, levels: Sequence[Level], prefix: str = "") -> tuple[Sections, list[Problem]]:
    """The sections as a model. What the model refuses becomes a problem and counts as not said, so that the rules can
    still look at the rest."""
    problems = [
        _problem(CODES, f"{prefix}{key}", origin.origin, ("没有这个键", "there is no such key"))
        for key, origin in merged.unknown.items()
    ]
    try:
        return Sections.model_validate(merged.sections), problems
    except ValidationError as refused:
        errors = refused.errors(include_url=False)
    told = {problem.key: problem for problem in (_refused(error, merged, levels, prefix) for error in errors)}
    problems += told.values()
    without = _without(merged.sections, [error["loc"] for error in errors])
    try:
        return Sections.model_validate(without), problems
    except ValidationError:
        return Sections(), problems


def _refused(error: Any, merged: Merged, levels: Sequence[Level], prefix: str) -> Problem:
    place = error["loc"]
    key = leaf = _leaf(merged, ".".join(str(step) for step in place))
    if any(isinstance(step, int) for step in place):  # inside a list, whose origin is that of the whole list
        key = ".".join(str(step) for step in place)
    rule = CODES if error["type"] in _NOT_A_CODE else RULES[_BY_SECTION.get(str(place[0]), CODES.number) - 1]
    said = "a value is needed" if error["type"] == "missing" else error["msg"].removeprefix("Value error, ")
    return _problem(rule, f"{prefix}{key}", origin_text(merged, leaf, levels), (f"值无效：{said}", said))


def _problem(rule: Rule, key: str, origin: str, said: tuple[str, str]) -> Problem:
    return Problem(rule.number, rule.name, key, origin, *said)


def _leaf(merged: Merged, key: str) -> str:
    """The model speaks of places inside of values; origins are kept for values as a whole."""
    steps = key.split(".")
    shorter = (".".join(steps[:length]) for length in range(len(steps), 0, -1))
    return next((path for path in shorter if path in merged.origins), key)


def _without(sections: dict[str, Any], places: list[tuple[int | str, ...]]) -> dict[str, Any]:
    kept = {key: dict(value) if isinstance(value, dict) else value for key, value in sections.items()}
    for section, *rest in places:
        inside = kept.get(str(section))
        if rest and isinstance(inside, dict):
            inside.pop(str(rest[0]), None)
        else:
            kept.pop(str(section), None)
    return kept
