"""JSON Schema as the whole product checks values: drafts 2020-12 and 7, nothing fetched, never without end.

Patterns run in an engine whose time is linear in the text, uniqueness is found by hashing, and references are counted,
so a schema that a stranger wrote cannot hold a worker. `errors_of` says what is wrong in plain words, by JSON pointer.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from jsonschema import FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, Draft202012Validator, extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing import Registry

from penstock.kernel import json
from penstock.kernel.errors import Sentence

DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
    "http://json-schema.org/draft-07/schema": Draft7Validator,
}
DEFAULT_DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_ERRORS = 100
_MAX_DEPTH = 100  # of a value
_MAX_REFERENCES = 100_000  # followed while one value is checked
_references: ContextVar[list[int]] = ContextVar("references")


class _TooMuch(Exception):
    pass


def draft_of(schema: Mapping[str, Any]) -> str | None:
    """Its address, without the empty fragment; None for one that is not known here."""
    named = schema.get("$schema", DEFAULT_DRAFT)
    bare = named.removesuffix("#") if isinstance(named, str) else ""
    return bare if bare in DRAFTS else None


def pointer(steps: Iterable[Any]) -> str:
    """RFC 6901; the whole value is the empty text."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def canonical(value: Any) -> str:
    """The same text for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [[key, _plain(value[key])] for key in sorted(value)] + [{}]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> SchemaValidator:
    """ValueError with the reason for what is not understood: look-around and back references are not."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as wrong:
        lines = [line for line in str(wrong).splitlines() if line.strip()]
        raise ValueError(lines[-1].strip().removeprefix("error: ").removeprefix("SchemaError: ")) from None


def matches(pattern: str, text: str) -> bool:
    """Anywhere in the text."""
    return compiled(pattern).isinstance_python(text)


def _pattern(_validator: Validator, wanted: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not matches(wanted, value):
        yield ValidationError(f"does not match {wanted}")


def _pattern_properties(validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, Mapping):
        return
    for pattern, below in wanted.items():
        for name, each in value.items():
            if matches(pattern, name):
                yield from validator.descend(each, below, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, Mapping):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    more = [name for name in value if name not in known and not any(matches(each, name) for each in patterns)]
    for name in more:
        if wanted is False:
            yield ValidationError("is not a property of this object", path=[name])
        else:
            yield from validator.descend(value[name], wanted, path=name)


def _unique_items(_validator: Validator, wanted: bool, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(value, list) and len({canonical(each) for each in value}) < len(value):
        yield ValidationError("has an element twice")


def _counted(original: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    def follow(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        count = _references.get([0])
        count[0] += 1
        if count[0] > _MAX_REFERENCES:
            raise _TooMuch
        yield from original(validator, wanted, value, schema) or ()

    return follow


def _bounded(draft: Any) -> Any:
    ours = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "$ref": _counted(draft.VALIDATORS["$ref"]),
    }
    return extend(draft, ours)  # type: ignore[no-untyped-call]


_VALIDATORS = {address: _bounded(draft) for address, draft in DRAFTS.items()}
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


def validator_of(schema: Mapping[str, Any]) -> Any:
    kind = _VALIDATORS[draft_of(schema) or DEFAULT_DRAFT]
    return kind(dict(schema), format_checker=formats, registry=Registry())


def errors_of(schema: Mapping[str, Any], value: Any, limit: int = MAX_ERRORS) -> list[dict[str, str]]:
    """[{path, message, message_zh}] of a value that does not fit, by path; empty when it does."""
    if _deeper_than(value, _MAX_DEPTH):
        return [fault("", Sentence(f"嵌套超过 {_MAX_DEPTH} 层", f"is nested more than {_MAX_DEPTH} deep"))]
    token = _references.set([0])
    try:
        found = []
        for error in validator_of(schema).iter_errors(value):
            found += _told(error)
            if len(found) >= limit:
                break
    except (_TooMuch, RecursionError):
        return [
            fault(
                "",
                Sentence(
                    "schema 自引用过多，无法校验此值", "the schema refers to itself too often to check this value"
                ),
            )
        ]
    finally:
        _references.reset(token)
    return sorted(found[:limit], key=lambda each: each["path"])


def fault(path: str, said: Sentence) -> dict[str, str]:
    """What is wrong at a place, in both languages; `message` is the English one, which models are shown too."""
    return {"path": path, "message": said.en, "message_zh": said.zh}


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [below for each in level for below in _below(each)]
        if not level:
            return False
    return True


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
    """One error for each name; the library makes an error of each, and says which only in its sentence."""
    wanted: Any = error.validator_value
    named = [name for name in wanted if error.message.startswith(repr(name))]
    return [fault(where + pointer([name]), Sentence("缺失", "is missing")) for name in named]


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
    return text if len(text) <= 200 else text[:199] + "…"


def _kind(value: Any) -> str:
    for kinds, name in (((bool,), "boolean"), ((int, float), "number"), ((str,), "string"), ((list,), "array")):
        if isinstance(value, kinds):
            return name
    return "null" if value is None else "object"
