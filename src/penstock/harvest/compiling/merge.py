"""Five levels laid over each other, key by key, with the origin of every leaf.

Sections and the models in them merge deeply, and so do maps whose keys are free (templates, params): there, a null
takes a key away. Lists and single values replace. Invariant: the origin of a leaf is the strongest level that says it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from penstock.harvest.spec import Section, Sections

STRENGTH = ("platform", "source", "endpoint", "section", "run")


@dataclass(frozen=True, slots=True)
class Level:
    """What one place says of an endpoint; only what it says."""

    name: str  # one of STRENGTH
    origin: str  # for people
    sections: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from, and what it took the place of (the strongest first)."""

    level: str
    origin: str
    value: Any
    overrode: tuple["Origin", ...] = ()

    def history(self) -> tuple["Origin", ...]:
        return (replace(self, overrode=()), *self.overrode)


@dataclass(slots=True)
class Merged:
    sections: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)  # by dotted key, one per leaf
    removed: dict[str, Origin] = field(default_factory=dict)  # keys that a null took away
    unknown: dict[str, Origin] = field(default_factory=dict)  # keys that nothing reads


def platform() -> Level:
    return Level("platform", "built in", Sections().model_dump(mode="json", by_alias=True))


def merge(levels: Iterable[Level]) -> Merged:
    """The platform's own defaults are always the first level."""
    merged = Merged()
    for level in sorted((platform(), *levels), key=lambda level: STRENGTH.index(level.name)):
        _lay_model(merged, merged.sections, level, Sections, (level.sections, ""))
    return merged


def _lay_model(merged: Merged, target: dict[str, Any], level: Level, model: type[Section], said: Any) -> None:
    values, prefix = said
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if key not in fields:
            merged.unknown[path] = Origin(level.name, level.origin, value)
            continue
        nested, is_map = _shape(fields[key])
        if nested is not None and isinstance(value, Mapping):
            if not isinstance(target.setdefault(key, {}), dict):
                _begin(merged, target, nested, (key, path))
            _lay_model(merged, target[key], level, nested, (value, f"{path}."))
        elif is_map and isinstance(value, Mapping):
            if not isinstance(target.get(key), dict):
                _forget(merged, path)
                target[key] = {}
            _lay_map(merged, target[key], level, (value, f"{path}."))
        else:
            _say(merged, path, Origin(level.name, level.origin, value))
            target[key] = value


def _lay_map(merged: Merged, target: dict[str, Any], level: Level, said: Any) -> None:
    values, prefix = said
    for key, value in values.items():
        path = f"{prefix}{key}"
        before = merged.origins.get(path) or merged.removed.get(path)
        history = before.history() if before else ()
        merged.origins.pop(path, None)
        merged.removed.pop(path, None)
        origin = Origin(level.name, level.origin, value, history)
        if value is None:
            target.pop(str(key), None)
            if before is not None:
                merged.removed[path] = origin
        else:
            merged.origins[path] = origin
            target[str(key)] = value


def _begin(merged: Merged, target: dict[str, Any], nested: type[Section], place: tuple[str, str]) -> None:
    """A model that was null until now: what the level leaves out, the platform says."""
    key, path = place
    _forget(merged, path)
    target[key] = {}
    defaults = nested.model_construct().model_dump(mode="json", by_alias=True)
    _lay_model(merged, target[key], Level("platform", "built in", {}), nested, (defaults, f"{path}."))


def _say(merged: Merged, path: str, origin: Origin) -> None:
    before = _forget(merged, path)
    merged.origins[path] = replace(origin, overrode=before.history()) if before else origin


def _forget(merged: Merged, path: str) -> Origin | None:
    """Takes away the leaf, or the leaves below, that something else now stands for, and returns it: leaves as one."""
    below = {key: merged.origins.pop(key) for key in list(merged.origins) if key.startswith(f"{path}.")}
    if not below:
        return merged.origins.pop(path, None)
    strongest = max(below.values(), key=lambda origin: STRENGTH.index(origin.level))
    whole = {key.removeprefix(f"{path}."): origin.value for key, origin in below.items()}
    return Origin(strongest.level, strongest.origin, whole)


def _shape(annotation: Any) -> tuple[type[Section] | None, bool]:
    """Of a field: the model that it holds, if any, and whether it is a map with free keys."""
    if get_origin(annotation) in {Union, UnionType}:
        parts = [part for part in get_args(annotation) if part is not NoneType]
        return _shape(parts[0]) if len(parts) == 1 else (None, False)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, False
    return None, get_origin(annotation) is dict
