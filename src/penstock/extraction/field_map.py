"""Which words on a page stand for which property: from names and titles of the schema, and what the rule adds.

Options of a rule with the mode `rules`: {"fields": {pointer: {"label": text or list, "regex": the value's own form,
"table": {header: property}, "order": "dmy" or "mdy"}}}. Pointers are into the result; "/lines" for a list of rows.
"""

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.extraction.schemas import pointer, resolver_of
from penstock.kernel.errors import Sentence
from penstock.kernel.schemas import compiled, fault
from penstock.kernel.step_budget import spend

_KEYS = ("label", "regex", "table", "order")
_MAX_FIELDS = 500
_MAX_PROPERTIES = 2_000
_MAX_DEPTH = 8  # of objects within objects; lists of rows are looked for no deeper
ALIKE = 0.86
_SHORTEST = 4  # letters of labels that are compared letter by letter
_PAIRS_PER_STEP = 16
_STEPS_PER_PROPERTY = 10
_MOST_REMEMBERED = 10_000
_SYNONYMS = {
    "no": "number", "num": "number", "nr": "number", "nbr": "number", "qty": "quantity", "amt": "amount",
    "tel": "phone", "telephone": "phone", "addr": "address", "desc": "description", "dt": "date", "ref": "reference",
}  # fmt: skip
_WORDS = re.compile(r"[a-z]+|\d+|[^\W\d_a-z]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

Problem = dict[str, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A property that is looked for. `schema` has its references followed."""

    at: tuple[str, ...]
    schema: Mapping[str, Any]
    labels: tuple[str, ...] = ()  # as words, the likeliest first
    regex: str | None = None
    order: Any = None
    columns: tuple["Wanted", ...] = field(default=())  # of the rows of a list

    @property
    def pointer(self) -> str:
        return pointer(self.at)

    @property
    def is_rows(self) -> bool:
        return bool(self.columns)


def words(text: str) -> str:
    """A label as plain words: no case, width, punctuation or humps; usual short forms written out."""
    said = _HUMP.sub(" ", unicodedata.normalize("NFKC", text)).casefold().replace("#", " number ").replace("№", " no ")
    return " ".join(_SYNONYMS.get(word, word) for word in _WORDS.findall(said))


def likeness(said: str, label: str) -> float:
    """Of two labels in words: 1 for the same, 0 for what should not be taken for it."""
    if not said or not label:
        return 0.0
    if said.replace(" ", "") == label.replace(" ", ""):
        return 1.0
    if min(len(said), len(label)) < _SHORTEST:
        return 0.0
    spend(1 + len(said) * len(label) // _PAIRS_PER_STEP)
    ratio = difflib.SequenceMatcher(None, said, label, autojunk=False).ratio()
    return ratio if ratio >= ALIKE else 0.0


class LabelIndex:
    """Many labels that are compared with what a page says: only those that can be alike are looked at closely.

    `alike` gives what `likeness` would for each label, by the place of the label's owner; 0 is left out.
    """

    def __init__(self, labels: Iterable[tuple[int, str]]) -> None:
        self._by_length: dict[int, list[tuple[int, str, Counter[str]]]] = {}
        self._same: dict[str, list[int]] = {}
        self._known: dict[str, dict[int, float]] = {}
        for owner, label in labels:
            self._same.setdefault(label.replace(" ", ""), []).append(owner)
            self._by_length.setdefault(len(label), []).append((owner, label, Counter(label)))

    def alike(self, said: str) -> Mapping[int, float]:
        known = self._known.get(said)
        if known is None:
            known = self._compared(said)
            if len(self._known) < _MOST_REMEMBERED:
                self._known[said] = known
        return known

    def _compared(self, said: str) -> dict[int, float]:
        if not said:
            return {}
        found: dict[int, float] = {}
        letters = Counter(said)
        for length, labels in self._by_length.items():
            spend()
            if min(length, len(said)) < _SHORTEST or 2 * min(length, len(said)) < ALIKE * (length + len(said)):
                continue
            for owner, label, others in labels:
                spend()
                if 2 * sum((letters & others).values()) >= ALIKE * (length + len(said)):
                    found[owner] = max(found.get(owner, 0.0), likeness(said, label))
        found |= dict.fromkeys(self._same.get(said.replace(" ", ""), ()), 1.0)
        return {owner: like for owner, like in found.items() if like}


def wanted_of(schema: Mapping[str, Any], options: Mapping[str, Any]) -> list[Wanted]:
    """The leaves and lists of rows that the schema asks for, in its order."""
    return list(_Walk(schema, options.get("fields", {})).properties(schema, ()))


def _followed(schema: Any, resolver: Any) -> dict[str, Any]:
    """References, allOf, and the first alternative that is not null, made one plain schema."""
    made: dict[str, Any] = {}
    pending, count = [schema], 0
    while pending and count < 50:
        count += 1
        part = pending.pop(0)
        if not isinstance(part, Mapping):
            continue
        spend(_STEPS_PER_PROPERTY + len(part.get("properties", ())))
        if "$ref" in part:
            pending.append(resolver.lookup(part["$ref"]).contents)
        pending += part.get("allOf", ())
        choices = [each for name in ("anyOf", "oneOf") for each in part.get(name, ())]
        pending += [each for each in choices if isinstance(each, Mapping) and each.get("type") != "null"][:1]
        if any(isinstance(each, Mapping) and each.get("type") == "null" for each in choices):
            made["x-nullable"] = True
        for key, value in part.items():
            if key == "properties":
                made["properties"] = {**value, **made.get("properties", {})}
            elif key == "required":
                made["required"] = [*made.get("required", ()), *value]
            elif key not in ("$ref", "allOf", "anyOf", "oneOf"):
                made.setdefault(key, value)
    return made


class _Walk:
    """Through the properties of a schema. One that goes on within itself for ever is left at some depth and size."""

    def __init__(self, schema: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        self._resolver = resolver_of(schema)
        self._fields = fields
        self._left = _MAX_PROPERTIES

    def properties(self, schema: Any, at: tuple[str, ...]) -> Iterator[Wanted]:
        for name, below in _followed(schema, self._resolver).get("properties", {}).items():
            self._left -= 1
            if self._left < 0:
                return
            inner, here = _followed(below, self._resolver), (*at, name)
            said = self._fields.get(pointer(here), {})
            if inner.get("properties") and kind_of(inner) == "object":
                if len(here) < _MAX_DEPTH:
                    yield from self.properties(inner, here)
                continue
            columns = self._columns(inner, said.get("table", {}))
            yield Wanted(here, inner, _labels(name, inner, said), said.get("regex"), said.get("order"), columns)

    def _columns(self, schema: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[Wanted, ...]:
        """Of a list of rows: what each row may have."""
        row = _followed(schema.get("items"), self._resolver) if kind_of(schema) == "array" else {}
        found = []
        for name, below in row.get("properties", {}).items():
            spend(len(headers))
            inner = _followed(below, self._resolver)
            given = [header for header, property_ in headers.items() if property_ == name]
            found.append(Wanted((name,), inner, _labels(name, inner, {"label": given})))
        return tuple(found)


def _labels(name: str, schema: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[str, ...]:
    given = said.get("label", [])
    texts = [*([given] if isinstance(given, str) else given), schema.get("title", ""), name]
    return tuple(dict.fromkeys(label for label in map(words, texts) if label))


def kind_of(schema: Mapping[str, Any]) -> str:
    """The type that a value is made as; the first that is not null."""
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or []
    named = [kind for kind in kinds if kind != "null"]
    if named:
        return str(named[0])
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def may_be_null(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds) or bool(schema.get("x-nullable"))


def problems_of(options: Mapping[str, Any]) -> list[Problem]:
    """[{path, message, message_zh}] of a rule's options."""
    no_option = "没有这个选项；可用的选项：fields", "there is no such option; the option is fields"
    found = [_at([key], *no_option) for key in options if key != "fields"]
    fields = options.get("fields", {})
    if not isinstance(fields, Mapping) or len(fields) > _MAX_FIELDS:
        said = f"must be an object of at most {_MAX_FIELDS} pointers"
        return [*found, _at(["fields"], f"必须是至多 {_MAX_FIELDS} 个指针的对象", said)]
    for at, said in fields.items():
        if not at.startswith("/"):
            wrong = "must be a JSON pointer such as /invoice_number"
            found.append(_at(["fields", at], "必须是 JSON 指针，例如 /invoice_number", wrong))
        if isinstance(said, Mapping):
            found += _of_field(at, said)
        else:
            keys = ", ".join(_KEYS)
            found.append(_at(["fields", at], f"必须是含有 {keys} 的对象", f"must be an object with {keys}"))
    return found


def _of_field(at: str, said: Mapping[str, Any]) -> Iterator[Problem]:
    for key in said:
        if key not in _KEYS:
            keys = ", ".join(_KEYS)
            yield _at(
                ["fields", at, key], f"没有这个键；可用的键：{keys}", f"there is no such key; the keys are {keys}"
            )
    labels = said.get("label", [])
    labels = [labels] if isinstance(labels, str) else labels
    if not isinstance(labels, list) or not all(isinstance(each, str) and words(each) for each in labels):
        wrong = "must be a label or a list of labels, each with letters"
        yield _at(["fields", at, "label"], "必须是标签或标签列表，且均含文字", wrong)
    table = said.get("table", {})
    if not isinstance(table, Mapping) or not all(isinstance(each, str) for each in table.values()):
        wrong = "must say for each header which property it is"
        yield _at(["fields", at, "table"], "必须写明每个表头对应哪个属性", wrong)
    if said.get("order") not in (None, "dmy", "mdy"):
        yield _at(["fields", at, "order"], "必须是 dmy 或 mdy", "must be dmy or mdy")
    if "regex" in said and (reason := _regex_fault(said["regex"])):
        yield _at(["fields", at, "regex"], *reason)


def _regex_fault(regex: Any) -> tuple[str, str] | None:
    if not isinstance(regex, str) or not 1 <= len(regex) <= 500:
        return "必须是不超过 500 个字符的正则表达式", "must be a pattern of at most 500 characters"
    try:
        compiled(regex)
        compiled(f"^(?:{regex})$")
    except ValueError as wrong:
        return f"无法使用此正则表达式：{wrong}", f"this pattern cannot be used: {wrong}"
    return None


def _at(steps: list[str], zh: str, en: str) -> Problem:
    return fault(pointer(steps), Sentence(zh, en))
