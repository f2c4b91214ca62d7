"""What a rule may ask for: a JSON Schema that is right by its draft, refers to nothing outside, and ends.

`problems_of` is run when a rule is written; what passes can be checked against any value in bounded time.
`errors_of` says what is wrong with a value.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, DRAFT202012

from penstock.kernel import json
from penstock.kernel.schemas import DEFAULT_DRAFT, DRAFTS, compiled, draft_of, errors_of, pointer

__all__ = ["errors_of", "pointer", "problems_of", "resolver_of"]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_SUBSCHEMAS = 5_000
MAX_PATTERNS = 100
MAX_PATTERN_LETTERS = 500
_PATTERN_SECONDS = 2.0  # for all of them: the engine is quick for any that people write
_MAX_EXPANSION = 10_000  # subschemas that look at one value

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = ("items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then",
            "else", "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_SINGLES = ("not", "if", "then", "else")
_DYNAMIC = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor")

Steps = tuple[str | int, ...]
Problem = dict[str, str]


def problems_of(schema: Any) -> list[Problem]:
    """[{path, message}]; empty when the schema can be used."""
    if not isinstance(schema, Mapping):
        return [_problem((), 'a schema is an object, such as {"type": "object", "properties": {…}}')]
    if size := _size_problem(schema):
        return [size]
    if draft_of(schema) is None:
        known = ", ".join(DRAFTS)
        return [_problem(("$schema",), f"this draft is not known here; leave it out, or use one of {known}")]
    parts = list(subschemas(schema))
    if len(parts) > MAX_SUBSCHEMAS:
        return [_problem((), f"has more than {MAX_SUBSCHEMAS:,} subschemas")]
    if found := _by_meta_schema(schema):
        return found
    found = [*_references(schema, parts), *_keywords(parts), *_patterns(parts)]
    return found or _without_end(schema, parts)


def _problem(steps: Steps, message: str) -> Problem:
    return {"path": pointer(steps), "message": message}


def _size_problem(schema: Mapping[str, Any]) -> Problem | None:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [below for each in level for below in _children(each)]
    if level:
        return _problem((), f"is nested more than {MAX_DEPTH} deep")
    if len(json.dump_bytes(schema)) > MAX_BYTES:
        return _problem((), f"is larger than {MAX_BYTES:,} bytes")
    return None


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _by_meta_schema(schema: Mapping[str, Any]) -> list[Problem]:
    address = draft_of(schema) or DEFAULT_DRAFT
    meta: Mapping[str, Any] = DRAFTS[address].META_SCHEMA
    validator: Any = DRAFTS[address](meta)
    found: dict[str, Problem] = {}
    for error in validator.iter_errors(schema):
        leaf = error
        while leaf.context:
            leaf = max(leaf.context, key=lambda each: len(each.absolute_path))
        where = pointer(leaf.absolute_path)
        found.setdefault(where, {"path": where, "message": f"is not right by the draft: {leaf.message[:200]}"})
    return sorted(found.values(), key=lambda each: each["path"])[:100]


def subschemas(schema: Any, at: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Each part that is a schema itself, the whole first. Values under names that are no keywords are not schemas."""
    pending: list[tuple[Steps, Any]] = [(at, schema)]
    while pending:
        steps, part = pending.pop()
        yield steps, part
        if isinstance(part, Mapping):
            pending += reversed(list(_direct(part, steps)))


def _direct(part: Mapping[str, Any], steps: Steps) -> Iterator[tuple[Steps, Any]]:
    for name in _MAPS:
        below = part.get(name)
        if isinstance(below, Mapping):
            yield from (((*steps, name, key), each) for key, each in below.items() if isinstance(each, Mapping | bool))
    for name in _LISTS:
        below = part.get(name)
        if isinstance(below, list):
            yield from (((*steps, name, index), each) for index, each in enumerate(below))
    for name in _SINGLES:
        if isinstance(part.get(name), Mapping | bool):
            yield (*steps, name), part[name]


def resolver_of(schema: Mapping[str, Any]) -> Any:
    """`resolver_of(schema).lookup("#/$defs/x").contents`; nothing is fetched."""
    kind = DRAFT7 if "draft-07" in (draft_of(schema) or "") else DRAFT202012
    resource = kind.create_resource(dict(schema))
    address = schema.get("$id", "")
    registry: Registry[Any] = Registry().with_resource(address, resource)
    return registry.resolver(base_uri=address)


def _references(schema: Mapping[str, Any], parts: list[tuple[Steps, Any]]) -> Iterator[Problem]:
    resolver = resolver_of(schema)
    for steps, part in parts:
        if not isinstance(part, Mapping):
            continue
        if steps and "$id" in part:
            yield _problem((*steps, "$id"), "only the whole schema may have an $id")
        for name in _DYNAMIC:
            if name in part:
                yield _problem((*steps, name), f"{name} is not supported; use $ref")
        if "$ref" not in part:
            continue
        if not part["$ref"].startswith("#"):
            yield _problem((*steps, "$ref"), "only references into this schema are followed, such as #/$defs/line")
        elif not _resolves(resolver, part["$ref"]):
            yield _problem((*steps, "$ref"), f"there is nothing at {part['$ref'][:200]}")


def _resolves(resolver: Any, reference: str) -> bool:
    try:
        return isinstance(resolver.lookup(reference).contents, Mapping | bool)
    except (Unresolvable, ValueError, TypeError, LookupError):
        return False


def _keywords(parts: list[tuple[Steps, Any]]) -> Iterator[Problem]:
    has_patterns = any("patternProperties" in part for _, part in parts if isinstance(part, Mapping))
    for steps, part in parts:
        if not isinstance(part, Mapping):
            continue
        if has_patterns and "unevaluatedProperties" in part:
            yield _problem((*steps, "unevaluatedProperties"), "cannot be used together with patternProperties")
        key = part.get("x-key", "")
        names = [key] if isinstance(key, str) else key
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            yield _problem((*steps, "x-key"), "is the name of a property of the elements, or a list of names")


def _patterns(parts: list[tuple[Steps, Any]]) -> Iterator[Problem]:
    named: list[tuple[Steps, str]] = []
    for steps, part in parts:
        if isinstance(part, Mapping):
            named += [((*steps, "pattern"), part["pattern"])] if "pattern" in part else []
            named += [((*steps, "patternProperties", each), each) for each in part.get("patternProperties", ())]
    if len(named) > MAX_PATTERNS:
        yield _problem((), f"has more than {MAX_PATTERNS} patterns")
        return
    until = time.monotonic() + _PATTERN_SECONDS
    for steps, pattern in named:
        if len(pattern) > MAX_PATTERN_LETTERS:
            yield _problem(steps, f"a pattern has at most {MAX_PATTERN_LETTERS} characters")
        elif time.monotonic() > until:
            yield _problem(steps, "the patterns are too complex together")
            return
        elif reason := _pattern_fault(pattern):
            yield _problem(steps, reason)


def _pattern_fault(pattern: str) -> str:
    try:
        compiled(pattern)
    except ValueError as wrong:
        return f"this pattern cannot be used: {wrong}"
    return ""


def _without_end(schema: Mapping[str, Any], parts: list[tuple[Steps, Any]]) -> list[Problem]:
    """References that lead back to themselves without a step into the value, or that multiply."""
    resolver = resolver_of(schema)
    counts: dict[int, int] = {}
    for steps, part in parts:
        count = _expansion(part, resolver, counts)
        if count is None:
            return [_problem(steps, "refers to itself without end")]
        if count > _MAX_EXPANSION:
            return [_problem(steps, "combines too many subschemas")]
    return []


def _expansion(root: Any, resolver: Any, counts: dict[int, int]) -> int | None:
    """How many subschemas look at a value where `root` does; None: without end. No recursion: chains may be long."""
    open_: set[int] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        part, is_seen = stack.pop()
        below = list(_in_place(part, resolver))
        if is_seen:
            open_.discard(id(part))
            counts[id(part)] = min(1 + sum(counts[id(each)] for each in below), _MAX_EXPANSION + 1)
        elif id(part) in open_:
            return None
        elif id(part) not in counts:
            open_.add(id(part))
            stack.append((part, True))
            for each in below:
                if id(each) in open_:
                    return None
                stack.append((each, False))
    return counts[id(root)]


def _in_place(part: Any, resolver: Any) -> Iterator[Any]:
    if not isinstance(part, Mapping):
        return
    if "$ref" in part:
        yield resolver.lookup(part["$ref"]).contents
    for name in _IN_PLACE_LISTS:
        yield from part.get(name, ())
    for name in _IN_PLACE_SINGLES:
        if name in part:
            yield part[name]
    for name in _IN_PLACE_MAPS:
        yield from (each for each in part.get(name, {}).values() if isinstance(each, Mapping | bool))
