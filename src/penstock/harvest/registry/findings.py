"""What the validator found, at its place in the file and in our words."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from penstock.harvest.registry.problems import unknown_key, wrong_value
from penstock.harvest.spec import Sections
from penstock.kernel.errors import Sentence
from penstock.kernel.yaml_text import Text, dotted

_KEY = Sentence(
    "名称只能用小写字母、数字、- 和 _，以字母开头",
    "a name has lower case letters, digits, - and _, and begins with a letter",
)


def report_all(text: Text, wrong: ValidationError, model: type[BaseModel]) -> None:
    """One problem for each key, however many ways there were to be wrong; a secret is not taken apart."""
    refused = {problem.key for problem in text.problems if problem.rule.startswith("secret.")}
    already: set[str] = set()
    for error in wrong.errors(include_url=False):
        location = tuple(step for step in error["loc"] if step != "[key]")
        rule, path, sentence = _finding(text, error, location, model)
        key = dotted(path)
        if key not in already | refused and not any(key.startswith(f"{whole}.") for whole in refused):
            already.add(key)
            text.report(path, rule, sentence)


def _finding(
    text: Text, error: Any, location: tuple[Any, ...], model: type[BaseModel]
) -> tuple[str, tuple[Any, ...], Sentence]:
    kind = error["type"]
    if kind == "extra_forbidden":
        known = _keys_at(model, location[:-1])
        return "key.unknown", location, unknown_key(str(location[-1]), known, _section_with(str(location[-1])))
    if "[key]" in error["loc"]:
        return "key.name", location, _KEY
    path = location if kind == "missing" else text.place(location)[0]
    if kind == "missing":
        return "key.missing", path, wrong_value(kind, {}, "", None)
    if kind == "string_pattern_mismatch" and "a-z0-9_-" in error["ctx"]["pattern"]:
        return "value.name", path, _KEY
    return "value.invalid", path, wrong_value(kind, error.get("ctx", {}), error["msg"], error["input"])


def _keys_at(model: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """The keys that are right at a place."""
    found: Any = model
    for step in path:
        if _is_model(found):
            found = next((info.annotation for info in found.model_fields.values() if info.alias == step), None)
        elif get_origin(found) in (dict, tuple):
            found = next(each for each in reversed(get_args(found)) if each is not Ellipsis)
        found = _opened(found)
    return [str(info.alias) for info in found.model_fields.values()] if _is_model(found) else []


def _opened(kind: Any) -> Any:
    """Without `| None` around it."""
    if _is_model(kind) or get_origin(kind) in (dict, tuple):
        return kind
    return next((found for each in get_args(kind) if (found := _opened(each)) is not None), None)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _models_in(kind: Any) -> Iterator[Any]:
    if _is_model(kind):
        yield kind
    for inner in get_args(kind):
        yield from _models_in(inner)


def _section_with(key: str) -> str | None:
    """The only section that has such a key."""
    having = [
        str(info.alias)
        for info in Sections.model_fields.values()
        for section in _models_in(info.annotation)
        if key in {inner.alias for inner in section.model_fields.values()}
    ]
    return having[0] if len(having) == 1 else None
