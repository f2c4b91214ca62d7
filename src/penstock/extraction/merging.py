"""What was extracted from the chunks of a document, made one.

Objects are merged field by field; of different answers the most frequent wins, then the first, and the others are
told in `conflicts`. Elements of a list are the same thing when their key is: `x-key` of the schema, else a property
that is called like a number or a code, else the whole value. Nothing is lost: by a guessed key only elements that do
not contradict each other are joined, and within one part nothing is joined, so a row that stands twice stays twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.extraction.field_map import words
from penstock.extraction.schemas import pointer, resolver_of
from penstock.extraction.spelling import fold
from penstock.kernel.schemas import canonical
from penstock.kernel.step_budget import spend

_KEY_WORDS = (
    "id",
    "uuid",
    "sku",
    "isbn",
    "ean",
    "barcode",
    "code",
    "number",
    "货号",
    "编号",
    "编码",
    "代码",
    "号码",
    "条码",
)
_MAX_CONFLICTS = 100
_Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """`conflicts`: {path, kept, others} where parts said different things."""

    data: Any
    conflicts: list[dict[str, Any]] = field(default_factory=list)


def merge(schema: Mapping[str, Any] | None, parts: Sequence[Any]) -> Merged:
    """In the order of the parts. One part is returned as it is."""
    work = _Merging(schema or {})
    if len(parts) == 1:
        return Merged(parts[0])
    return Merged(work.values(schema or {}, list(parts), ()), work.conflicts)


class _Merging:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._resolver = resolver_of(schema)
        self.conflicts: list[dict[str, Any]] = []

    def values(self, schema: Any, values: list[Any], at: _Steps) -> Any:
        said = [each for each in values if not _is_empty(each)] or [each for each in values if each is not None]
        if not said:
            return None
        if all(isinstance(each, Mapping) for each in said):
            return self._object(schema, said, at)
        if all(isinstance(each, list) for each in said):
            return self._list(schema, said, at)
        return self._choice(said, at)

    def _object(self, schema: Any, values: list[Mapping[str, Any]], at: _Steps) -> dict[str, Any]:
        names = dict.fromkeys(name for each in values for name in each)
        below = self._facts(schema)["properties"]
        return {
            name: self.values(below.get(name, {}), [each[name] for each in values if name in each], (*at, name))
            for name in names
        }

    def _choice(self, values: list[Any], at: _Steps) -> Any:
        counts: dict[str, int] = {}
        first: dict[str, Any] = {}
        for each in values:
            form = canonical(each)
            counts[form] = counts.get(form, 0) + 1
            first.setdefault(form, each)
        best = max(counts, key=lambda form: counts[form])  # of equals the first
        if len(counts) > 1 and len(self.conflicts) < _MAX_CONFLICTS:
            others = [value for form, value in first.items() if form != best]
            self.conflicts.append({"path": pointer(at), "kept": first[best], "others": others[:10]})
        return first[best]

    def _list(self, schema: Any, values: list[list[Any]], at: _Steps) -> list[Any]:
        facts = self._facts(schema)
        items, declared = facts["items"], facts["key"] or self._facts(facts["items"])["key"]
        guessed = () if declared else _guessed_key(self._facts(items)["properties"], values)
        found = _Elements(declared or guessed, is_declared=bool(declared))
        for part in values:
            found.add(part)
        return [
            each.members[0] if len(each.members) == 1 else self.values(items, each.members, (*at, index))
            for index, each in enumerate(found.elements)
        ]

    def _facts(self, schema: Any) -> dict[str, Any]:
        """Properties, element schema and key, through references and combinations."""
        facts: dict[str, Any] = {"properties": {}, "items": {}, "key": ()}
        pending, count = [schema], 0
        while pending and count < 50:
            count += 1
            part = pending.pop(0)
            if not isinstance(part, Mapping):
                continue
            spend(5 + len(part.get("properties", ())))
            facts["properties"] = {**part.get("properties", {}), **facts["properties"]}
            facts["items"] = facts["items"] or (part["items"] if isinstance(part.get("items"), Mapping) else {})
            key = part.get("x-key", ())
            facts["key"] = facts["key"] or ((key,) if isinstance(key, str) else tuple(key))
            if "$ref" in part:
                pending.append(self._resolver.lookup(part["$ref"]).contents)
            pending += [each for name in ("allOf", "anyOf", "oneOf") for each in part.get(name, ())]
        return facts


@dataclass(slots=True)
class _Element:
    """One thing of the list, as each part saw it. `known` is what all of them together say, the first first."""

    members: list[Any]
    known: Any
    forms: set[str]


class _Elements:
    """The things of a list, in the order in which they were first seen."""

    def __init__(self, key: tuple[str, ...], *, is_declared: bool) -> None:
        self._key = key
        self._is_declared = is_declared
        self.elements: list[_Element] = []
        self._by_key: dict[Any, list[int]] = {}

    def add(self, part: Iterable[Any]) -> None:
        """Within a part nothing is the same as anything else: each element takes at most one of those before."""
        taken: set[int] = set()
        for value in part:
            form = canonical(value)
            key = self._key_of(value) or form
            alike = self._by_key.get(key, ())
            spend(len(alike))
            same = [index for index in alike if index not in taken]
            found = self._match(same, value, form)
            if found is None:
                found = len(self.elements)
                self.elements.append(_Element([value], value, {form}))
                self._by_key.setdefault(key, []).append(found)
            elif form in self.elements[found].forms:
                self.elements[found].members.append(value)
            else:
                element = self.elements[found]
                element.members.append(value)
                element.forms.add(form)
                element.known = _filled(element.known, value)
            taken.add(found)

    def _match(self, same: list[int], value: Any, form: str) -> int | None:
        spend(1 + len(same))
        for index in same:
            if form in self.elements[index].forms:
                return index
        for index in same:
            if self._is_declared or _agree(self.elements[index].known, value):
                return index
        return None

    def _key_of(self, value: Any) -> tuple[str, ...] | None:
        if not self._key or not isinstance(value, Mapping):
            return None
        given = [value.get(name) for name in self._key]
        if any(_is_empty(each) or isinstance(each, Mapping | list) for each in given):
            return None
        return tuple(fold(each) if isinstance(each, str) else canonical(each) for each in given)


def _guessed_key(properties: Mapping[str, Any], values: list[list[Any]]) -> tuple[str, ...]:
    """The name that says most clearly that it is one."""
    names = list(properties) or list(
        dict.fromkeys(name for part in values for each in part if isinstance(each, Mapping) for name in each)
    )
    ranked = []
    for position, name in enumerate(names):
        said = words(name).split()
        rank = next((rank for rank, word in enumerate(_KEY_WORDS) if said and said[-1] == word), None)
        if rank is not None:
            ranked.append((len(said) > 1, rank, position, name))
    return (min(ranked)[-1],) if ranked else ()


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | Mapping) and not value)


def _agree(one: Any, other: Any) -> bool:
    """Nothing that one says is said otherwise by the other. Lists add to each other."""
    if _is_empty(one) or _is_empty(other):
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_agree(one[name], other[name]) for name in one if name in other)
    if isinstance(one, list) and isinstance(other, list):
        return True
    if isinstance(one, str) and isinstance(other, str):
        return fold(one) == fold(other)
    return canonical(one) == canonical(other)


def _filled(one: Any, other: Any) -> Any:
    if _is_empty(one):
        return other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        names = dict.fromkeys([*one, *other])
        return {name: _filled(one.get(name), other.get(name)) for name in names}
    return one
