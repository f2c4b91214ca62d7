"""What the rules look at, and what they say: every problem names the rule, the key, where it was written, and why."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from penstock.harvest.compiling.merge import Level, Merged, Origin
from penstock.harvest.compiling.templates import TemplateCheck, compiles
from penstock.harvest.functions import FUNCTIONS
from penstock.harvest.spec import Operation, Sections


class Endpoint(Protocol):
    @property
    def role(self) -> str: ...
    @property
    def linked_endpoint(self) -> str | None: ...


class Source(Protocol):
    """A source as the registry knows it; levels from the weakest to the strongest."""

    @property
    def provenance_code(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def endpoints(self) -> Mapping[str, Endpoint]: ...
    @property
    def credentials(self) -> Mapping[str, Any]: ...
    def levels(self, endpoint_name: str) -> list[Level]: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What the checks need to know from outside: the dictionaries, and who can read a template."""

    known_codes: Mapping[str, frozenset[str]] | None = None  # by type; None: only the model's own names count
    functions: frozenset[str] = frozenset(FUNCTIONS)  # all that there are; a source allows some of them
    check_template: TemplateCheck = compiles
    allows_private: bool = False  # the operator applied it: its addresses may be in our own network


class Complaint(NamedTuple):
    key: str
    zh: str
    en: str


@dataclass(frozen=True, slots=True)
class Part:
    """One endpoint, merged and read."""

    endpoint_name: str
    role: str
    levels: tuple[Level, ...]  # what is written of it, the weakest first
    sections: Sections
    merged: Merged
    prefix: str = ""  # of its keys: "detail." for the linked endpoint
    by_id: bool = False  # asked for given ids: neither pages nor windows
    ids_only: bool = False  # its answers are lists of ids

    def origin(self, key: str) -> str:
        return origin_text(self.merged, key, self.levels)


@dataclass(frozen=True, slots=True)
class Case:
    """All that is compiled together."""

    source: Source
    operation: Operation
    main: Part
    detail: Part | None
    terms: Terms

    @property
    def parts(self) -> list[Part]:
        return [self.main, *([self.detail] if self.detail else [])]


Found = Iterator[tuple[Part, Complaint]]


@dataclass(frozen=True, slots=True)
class Rule:
    number: int
    name: str
    zh: str
    en: str
    check: Callable[[Case], Found]


@dataclass(frozen=True, slots=True)
class Problem:
    number: int
    rule: str
    key: str
    origin: str
    zh: str
    en: str

    def told(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "number": self.number,
            "key": self.key,
            "origin": self.origin,
            "message_zh": f"{self.origin}：{self.key}：{self.zh}（规则 {self.number}，{self.rule}）",
            "message_en": f"{self.origin}: {self.key}: {self.en} (rule {self.number}, {self.rule})",
        }


def origin_text(merged: Merged, key: str, levels: Sequence[Level]) -> str:
    """The file and place to look at. What nobody wrote is missing where the rest of its section is written."""
    written = _nearest(merged, key)
    if written is not None and written.level != "platform":
        return written.origin
    section = key.partition(".")[0]
    static = [level for level in levels if level.name != "run"]
    beside = [level.origin for level in static if section in level.sections]
    return next(reversed(beside or [level.origin for level in static]), "nowhere")


def _nearest(merged: Merged, key: str) -> Origin | None:
    known = merged.unknown.get(key) or merged.origins.get(key)
    if known is not None:
        return known
    below = [origin for path, origin in merged.origins.items() if path.startswith(f"{key}.")]
    written = [origin for origin in below if origin.level != "platform"]
    if written:
        return written[-1]
    parent = key.rpartition(".")[0]
    return merged.origins.get(parent) if parent else None
