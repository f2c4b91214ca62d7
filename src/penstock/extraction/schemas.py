"""What a rule may ask for: a JSON Schema that is right by its draft, refers to nothing outside, and ends.

`problems_of` is run when a rule is written; `errors_of` says what is wrong with a value. Both count their steps and
raise TooCostly; both run in the sandbox when the schema is a merchant's.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from referencing.exceptions import Unresolvable

from penstock.kernel import json
from penstock.kernel.errors import Sentence
from penstock.kernel.schema_parts import Steps, subschemas
from penstock.kernel.schemas import (
    DRAFTS,
    compiled,
    draft_of,
    errors_of,
    fault,
    meta_errors_of,
    pointer,
    resolver_of,
)  # fmt: skip
from penstock.kernel.step_budget import step_budget

__all__ = ["errors_of", "pointer", "problems_of", "resolver_of"]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_SUBSCHEMAS = 5_000
MAX_PATTERNS = 100
MAX_PATTERN_LETTERS = 500
_MAX_EXPANSION = 10_000  # subschemas that look at one value

_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_SINGLES = ("not", "if", "then", "else")
_DYNAMIC = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor")

Problem = dict[str, str]


def problems_of(schema: Any) -> list[Problem]:
    """[{path, message, message_zh}]; empty when the schema can be used. Raises TooCostly."""
    with step_budget():
        return _problems_of(schema)


def _problems_of(schema: Any) -> list[Problem]:
    if not isinstance(schema, Mapping):
        such = '{"type": "object", "properties": {…}}'
        return [_problem((), f"schema 必须是对象，例如 {such}", f"a schema is an object, such as {such}")]
    if size := _size_problem(schema):
        return [size]
    if draft_of(schema) is None:
        known = ", ".join(DRAFTS)
        said = f"不支持此版本；请省略，或使用 {known} 之一"
        return [_problem(("$schema",), said, f"this draft is not known here; leave it out, or use one of {known}")]
    parts = list(subschemas(schema))
    if len(parts) > MAX_SUBSCHEMAS:
        return [_problem((), f"子 schema 超过 {MAX_SUBSCHEMAS:,} 个", f"has more than {MAX_SUBSCHEMAS:,} subschemas")]
    if found := _by_meta_schema(schema):
        return found
    found = [*_references(schema, parts), *_keywords(parts), *_patterns(parts)]
    return found or _without_end(schema, parts)


def _problem(steps: Steps, zh: str, en: str) -> Problem:
    return fault(pointer(steps), Sentence(zh, en))


def _size_problem(schema: Mapping[str, Any]) -> Problem | None:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [below for each in level for below in _children(each)]
    if level:
        return _problem((), f"嵌套超过 {MAX_DEPTH} 层", f"is nested more than {MAX_DEPTH} deep")
    if len(json.dump_bytes(schema)) > MAX_BYTES:
        return _problem((), f"超过 {MAX_BYTES:,} 字节", f"is larger than {MAX_BYTES:,} bytes")
    return None


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _by_meta_schema(schema: Mapping[str, Any]) -> list[Problem]:
    found: dict[str, Problem] = {}
    for steps, why in meta_errors_of(schema):
        said = Sentence(f"不符合规范：{why.zh[:200]}", f"is not right by the draft: {why.en[:200]}")
        found.setdefault(pointer(steps), fault(pointer(steps), said))
    return sorted(found.values(), key=lambda each: each["path"])


def _references(schema: Mapping[str, Any], parts: list[tuple[Steps, Any]]) -> Iterator[Problem]:
    resolver = resolver_of(schema)
    for steps, part in parts:
        if not isinstance(part, Mapping):
            continue
        if steps and "$id" in part:
            yield _problem((*steps, "$id"), "只有整个 schema 可以有 $id", "only the whole schema may have an $id")
        for name in _DYNAMIC:
            if name in part:
                yield _problem((*steps, name), f"不支持 {name}；请用 $ref", f"{name} is not supported; use $ref")
        if "$ref" not in part:
            continue
        if not part["$ref"].startswith("#"):
            said = "only references into this schema are followed, such as #/$defs/line"
            yield _problem((*steps, "$ref"), "只支持指向本 schema 内部的引用，例如 #/$defs/line", said)
        elif not _resolves(resolver, part["$ref"]):
            where = part["$ref"][:200]
            yield _problem((*steps, "$ref"), f"{where} 处没有内容", f"there is nothing at {where}")


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
            said = "cannot be used together with patternProperties"
            yield _problem((*steps, "unevaluatedProperties"), "不能与 patternProperties 同时使用", said)
        key = part.get("x-key", "")
        names = [key] if isinstance(key, str) else key
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            said = "is the name of a property of the elements, or a list of names"
            yield _problem((*steps, "x-key"), "应为元素的属性名，或属性名的列表", said)


def _patterns(parts: list[tuple[Steps, Any]]) -> Iterator[Problem]:
    named: list[tuple[Steps, str]] = []
    for steps, part in parts:
        if isinstance(part, Mapping):
            named += [((*steps, "pattern"), part["pattern"])] if "pattern" in part else []
            named += [((*steps, "patternProperties", each), each) for each in part.get("patternProperties", ())]
    if len(named) > MAX_PATTERNS:
        yield _problem((), f"pattern 超过 {MAX_PATTERNS} 个", f"has more than {MAX_PATTERNS} patterns")
        return
    for steps, pattern in named:
        if len(pattern) > MAX_PATTERN_LETTERS:
            most = MAX_PATTERN_LETTERS
            yield _problem(steps, f"pattern 最多 {most} 个字符", f"a pattern has at most {most} characters")
        elif reason := _pattern_fault(pattern):
            yield _problem(steps, f"无法使用此 pattern：{reason}", f"this pattern cannot be used: {reason}")


def _pattern_fault(pattern: str) -> str:
    try:
        compiled(pattern)
    except ValueError as wrong:
        return str(wrong)
    return ""


def _without_end(schema: Mapping[str, Any], parts: list[tuple[Steps, Any]]) -> list[Problem]:
    """References that lead back to themselves without a step into the value, or that multiply."""
    resolver = resolver_of(schema)
    counts: dict[int, int] = {}
    for steps, part in parts:
        count = _expansion(part, resolver, counts)
        if count is None:
            return [_problem(steps, "无止境地引用自身", "refers to itself without end")]
        if count > _MAX_EXPANSION:
            return [_problem(steps, "组合的子 schema 过多", "combines too many subschemas")]
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
