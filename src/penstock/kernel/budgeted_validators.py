"""The validators of jsonschema, with each step counted and nothing that takes longer than it counts.

Counted are: each schema that looks at a value, with its keywords; each name, alternative or choice that a keyword
goes through; each error, with the letters of its sentence. What the library does by comparing each with each is done
by keys. A part that names a draft of its own is checked as the whole is: the library would change over to validators
that count nothing and match with backtracking.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from penstock.kernel.canonical import canonical_key
from penstock.kernel.patterns import matches
from penstock.kernel.step_budget import spend

Errors = Iterator[ValidationError]
Check = Callable[[Any, Any, Any, Any], Any]
_LETTERS_PER_STEP = 32
_PAIRS_PER_STEP = 64
_STEPS_PER_ERROR = 4
_COPIED = (
    ("_ref_resolver", "resolver"), ("format_checker", "format_checker"), ("_registry", "registry"),
    ("_resolver", "_resolver"),
)  # fmt: skip


_choices: ContextVar[dict[int, set[Hashable]]] = ContextVar("choices")  # of each `enum`, by its identity


@contextmanager
def one_check() -> Iterator[None]:
    """Around each check of a value: what is remembered by identity holds as long as the schema is there."""
    token = _choices.set({})
    try:
        yield
    finally:
        _choices.reset(token)


def budgeted(draft: Any) -> Any:
    """The validator class of a draft, changed so."""
    ours: dict[str, Check] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "required": _required,
        "enum": _enum,
        "const": _const,
    }
    ways: dict[str, Callable[[Any, Any], int]] = {
        "enum": _one_step,  # its choices are counted when they are first used
        "$ref": _steps_of_reference,
        "format": _steps_of_text,
        "dependentRequired": _steps_of_lists,
        "dependencies": _steps_of_lists,
        "unevaluatedItems": _steps_of_pairs,
        "unevaluatedProperties": _steps_of_pairs,
    }
    checks = {
        name: _counted(ours.get(name, check), ways.get(name, _steps_of_wanted))
        for name, check in draft.VALIDATORS.items()
    }
    made = extend(draft, checks)  # type: ignore[no-untyped-call]
    made.evolve = _evolve
    return made


def _evolve(validator: Any, **changes: Any) -> Any:
    """A validator of the same class for another schema: each that looks at a value comes this way."""
    schema = changes.setdefault("schema", validator.schema)
    spend(1 + (len(schema) if isinstance(schema, Mapping) else 0))
    for attribute, name in _COPIED:
        if name not in changes:
            changes[name] = getattr(validator, attribute)
    return type(validator)(**changes)


def _counted(check: Check, steps: Callable[[Any, Any], int]) -> Check:
    def counted(validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
        spend(steps(wanted, value))
        for error in check(validator, wanted, value, schema) or ():
            spend(_STEPS_PER_ERROR + len(error.message) // _LETTERS_PER_STEP)
            yield error

    return counted


def _steps_of_wanted(wanted: Any, _value: Any) -> int:
    return 1 + (len(wanted) if isinstance(wanted, Mapping | list) else 0)


def _one_step(_wanted: Any, _value: Any) -> int:
    return 1


def _steps_of_reference(wanted: Any, _value: Any) -> int:
    return 5 + 2 * str(wanted).count("/")


def _steps_of_text(_wanted: Any, value: Any) -> int:
    return 1 + (len(value) // _LETTERS_PER_STEP if isinstance(value, str) else 0)


def _steps_of_lists(wanted: Any, _value: Any) -> int:
    return 1 + sum(1 + len(each) for each in wanted.values() if isinstance(each, Mapping | list))


def _steps_of_pairs(_wanted: Any, value: Any) -> int:
    """The library looks for each element in a list of those that were evaluated."""
    return 1 + (len(value) ** 2 // _PAIRS_PER_STEP if isinstance(value, Mapping | list) else 0)


def _pattern(_validator: Any, wanted: str, value: Any, _schema: Any) -> Errors:
    if isinstance(value, str) and not matches(wanted, value):
        yield ValidationError(f"does not match {wanted}")


def _pattern_properties(validator: Any, wanted: Any, value: Any, _schema: Any) -> Errors:
    if not isinstance(value, Mapping):
        return
    for pattern, below in wanted.items():
        for name, each in value.items():
            if matches(pattern, name):
                yield from validator.descend(each, below, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
    if not isinstance(value, Mapping):
        return
    spend(len(value))
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    more = [name for name in value if name not in known and not any(matches(each, name) for each in patterns)]
    for name in more:
        if wanted is False:
            yield ValidationError("is not a property of this object", path=[name])
        else:
            yield from validator.descend(value[name], wanted, path=name)


def _unique_items(_validator: Any, wanted: bool, value: Any, _schema: Any) -> Errors:
    if not wanted or not isinstance(value, list):
        return
    spend(len(value))
    if len({canonical_key(each) for each in value}) < len(value):
        yield ValidationError("has an element twice")


def _required(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Errors:
    """The error of each name has that name as its wanted value."""
    if isinstance(value, Mapping):
        for name in wanted:
            if name not in value:
                yield ValidationError(f"{name!r} is a required property", validator_value=[name])


def _enum(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Errors:
    kept = _choices.get()
    keys = kept.get(id(wanted))
    if keys is None:
        spend(len(wanted))
        keys = kept[id(wanted)] = {canonical_key(each) for each in wanted}
    if canonical_key(value) not in keys:
        yield ValidationError("is not one of the choices")


def _const(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Errors:
    if canonical_key(value) != canonical_key(wanted):
        yield ValidationError("is not the one value that is allowed")
