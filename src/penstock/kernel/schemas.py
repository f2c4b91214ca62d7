"""JSON Schema as the whole product checks values: drafts 2020-12 and 7, nothing fetched, never without end.

Patterns run in an engine whose time is linear in the text; each step of a check is counted (`budgeted_validators.py`).
`errors_of` says what is wrong in plain words, by JSON pointer. A check of a schema that a user wrote runs in the
sandbox (`confined_calls.py`): call `errors_of` there, never on the event loop.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from jsonschema import FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft7Validator, Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7, DRAFT202012, UnknownDialect

from penstock.kernel import json
from penstock.kernel.budgeted_validators import budgeted, one_check
from penstock.kernel.canonical import canonical
from penstock.kernel.errors import Sentence
from penstock.kernel.patterns import compiled, matches
from penstock.kernel.plain_schema import is_plain
from penstock.kernel.schema_parts import Steps, alone, subschemas
from penstock.kernel.step_budget import allow, spend, step_budget

__all__ = [
    "canonical",
    "compiled",
    "errors_of",
    "fault",
    "matches",
    "meta_errors_of",
    "pointer",
    "resolver_of",
    "validator_of",
]

DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
    "http://json-schema.org/draft-07/schema": Draft7Validator,
}
DEFAULT_DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_ERRORS = 100
_MAX_DEPTH = 100  # of a value
_STEPS_PER_VALUE = 10  # on top of the budget, for each value within the value that is checked


def draft_of(schema: Mapping[str, Any]) -> str | None:
    """Its address, without the empty fragment; None for one that is not known here."""
    named = schema.get("$schema", DEFAULT_DRAFT)
    bare = named.removesuffix("#") if isinstance(named, str) else ""
    return bare if bare in DRAFTS else None


def pointer(steps: Iterable[Any]) -> str:
    """RFC 6901; the whole value is the empty text."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


VALIDATORS = {address: budgeted(draft) for address, draft in DRAFTS.items()}
formats = FormatChecker(formats=())
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_EMAIL = re.compile(r"[^\s@<>()]{1,64}@[^\s@<>().]+(\.[^\s@<>().]+)+")


@formats.checks("date", raises=ValueError)
def _is_date(value: object) -> bool:
    return not isinstance(value, str) or (_DATE.fullmatch(value) is not None and bool(date.fromisoformat(value)))


@formats.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return _DATE_TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value.upper()))


@formats.checks("email")
def _is_email(value: object) -> bool:
    return not isinstance(value, str) or (len(value) <= 320 and _EMAIL.fullmatch(value) is not None)


@formats.checks("uri", raises=ValueError)
def _is_uri(value: object) -> bool:
    if not isinstance(value, str):
        return True
    parts = urlsplit(value)
    return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"[\s<>\"{}|\\^`]", value)


def resolver_of(schema: Mapping[str, Any]) -> Any:
    """`resolver_of(schema).lookup("#/$defs/x").contents`; nothing is fetched."""
    kind = DRAFT7 if "draft-07" in (draft_of(schema) or "") else DRAFT202012
    address = schema.get("$id", "")
    registry: Registry[Any] = Registry().with_resource(address, kind.create_resource(dict(schema)))
    with suppress(UnknownDialect):
        registry = registry.crawl()  # once here, not for each anchor that is looked up
    return registry.resolver(base_uri=address)


def validator_of(schema: Mapping[str, Any]) -> Any:
    kind = VALIDATORS[draft_of(schema) or DEFAULT_DRAFT]
    return kind(dict(schema), format_checker=formats, _resolver=resolver_of(schema))


def errors_of(schema: Mapping[str, Any], value: Any, limit: int = MAX_ERRORS) -> list[dict[str, str]]:
    """[{path, message, message_zh}] of a value that does not fit, by path; empty when it does.

    Raises TooCostly where the schema asks for more steps than the budget has.
    """
    values = _count_values(value)
    if values is None:
        return [fault("", Sentence(f"嵌套超过 {_MAX_DEPTH} 层", f"is nested more than {_MAX_DEPTH} deep"))]
    found: list[dict[str, str]] = []
    with step_budget(), one_check():
        allow(_STEPS_PER_VALUE * values)
        try:
            for error in validator_of(schema).iter_errors(value):
                found += _told(error)
                if len(found) >= limit:
                    break
        except RecursionError:
            said = "the schema refers to itself too often to check this value"
            return [fault("", Sentence("schema 自引用过多，无法校验此值", said))]
    return sorted(found[:limit], key=lambda each: each["path"])


def meta_errors_of(schema: Mapping[str, Any]) -> list[tuple[Steps, Sentence]]:
    """Where a schema is not right by its draft, and why; at most MAX_ERRORS. Raises TooCostly.

    Its parts are looked at one by one. Most are plain, and right without asking the draft, which is slow.
    """
    draft = draft_of(schema) or DEFAULT_DRAFT
    validator: Any = VALIDATORS[draft](DRAFTS[draft].META_SCHEMA, registry=Registry())
    found: list[tuple[Steps, Sentence]] = []
    with step_budget(), one_check():
        for steps, part in subschemas(schema):
            spend(1 + len(part) if isinstance(part, Mapping) else 1)
            if is_plain(part) or not isinstance(part, Mapping):  # of what is no schema at all its owner tells
                continue
            for error in islice(validator.iter_errors(alone(part)), MAX_ERRORS - len(found)):
                leaf = error
                while leaf.context:
                    leaf = max(leaf.context, key=lambda each: len(each.absolute_path))
                found.append(((*steps, *leaf.absolute_path), _sentence(leaf)))
    return found


def fault(path: str, said: Sentence) -> dict[str, str]:
    """What is wrong at a place, in both languages; `message` is the English one, which models are shown too."""
    return {"path": path, "message": said.en, "message_zh": said.zh}


def _count_values(value: Any) -> int | None:
    """How many values the value holds, itself included; None when it is nested too deeply."""
    level, count = [value], 0
    for _ in range(_MAX_DEPTH):
        count += len(level)
        level = [below for each in level for below in _below(each)]
        if not level:
            return count
    return None


def _below(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _told(error: ValidationError) -> list[dict[str, str]]:
    where = pointer(error.absolute_path)
    if error.validator == "required" and isinstance(error.instance, Mapping):
        return _missing(error, where)
    return [fault(where, _sentence(error))]


def _missing(error: ValidationError, where: str) -> list[dict[str, str]]:
    """One error for each name."""
    wanted: Any = error.validator_value
    return [fault(where + pointer([name]), Sentence("缺失", "is missing")) for name in wanted]


_SENTENCES = {
    "enum": Sentence("必须是 {} 之一", "must be one of {}"),
    "const": Sentence("必须是 {}", "must be {}"),
    "minimum": Sentence("不得小于 {}", "must be at least {}"),
    "maximum": Sentence("不得大于 {}", "must be at most {}"),
    "exclusiveMinimum": Sentence("必须大于 {}", "must be more than {}"),
    "exclusiveMaximum": Sentence("必须小于 {}", "must be less than {}"),
    "multipleOf": Sentence("必须是 {} 的倍数", "must be a multiple of {}"),
    "minLength": Sentence("至少要有 {} 个字符", "must have at least {} characters"),
    "maxLength": Sentence("最多 {} 个字符", "must have at most {} characters"),
    "minItems": Sentence("至少要有 {} 个元素", "must have at least {} elements"),
    "maxItems": Sentence("最多 {} 个元素", "must have at most {} elements"),
    "minProperties": Sentence("至少要有 {} 个属性", "must have at least {} properties"),
    "maxProperties": Sentence("最多 {} 个属性", "must have at most {} properties"),
    "format": Sentence("不是有效的 {}", "is not a valid {}"),
    "pattern": Sentence("不匹配 {}", "does not match {}"),
    "uniqueItems": Sentence("有重复的元素", "has an element twice"),
    "additionalProperties": Sentence("该对象没有这个属性", "is not a property of this object"),
}
_AS_WRITTEN = ("format", "pattern")


def _sentence(error: ValidationError) -> Sentence:
    wanted = error.validator_value
    if error.validator == "type":
        kinds, found = list(map(str, wanted if isinstance(wanted, list) else [wanted])), _kind(error.instance)
        return Sentence(f"必须是 {' 或 '.join(kinds)}，实为 {found}", f"must be {' or '.join(kinds)}, is {found}")
    if error.validator in ("anyOf", "oneOf"):
        return _of_alternatives(error)
    form = _SENTENCES.get(str(error.validator))
    if form is None:
        return Sentence(error.message[:300], error.message[:300])
    shown = wanted if isinstance(wanted, str) and error.validator in _AS_WRITTEN else _short(wanted)
    return Sentence(form.zh.format(shown), form.en.format(shown))


def _of_alternatives(error: ValidationError) -> Sentence:
    if not error.context:
        return Sentence("符合不止一个选项", "fits more than one of the alternatives")
    closest = max(error.context, key=lambda each: len(each.absolute_path))
    where, why = pointer(closest.relative_path), _sentence(closest)
    at = f"{where} " if where else ""
    return Sentence(
        f"不符合任何一个选项；最接近者：{at}{why.zh}"[:400],
        f"fits none of the alternatives; of the closest: {at}{why.en}"[:400],
    )


def _short(value: Any) -> str:
    text = json.dumps(value)
    spend(len(text) // 64)
    return text if len(text) <= 200 else text[:199] + "…"


def _kind(value: Any) -> str:
    for kinds, name in (((bool,), "boolean"), ((int, float), "number"), ((str,), "string"), ((list,), "array")):
        if isinstance(value, kinds):
            return name
    return "null" if value is None else "object"
