"""A source as the tables have it: what the compiler, the planner and the callers work with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.harvest.registry.canonical import SECTIONS, default_endpoint
from penstock.harvest.registry.rows import CAPABILITIES, ENDPOINTS, FIELDS, SECTION_TABLES

if TYPE_CHECKING:
    from penstock.harvest.compiling.merge import Level

_TABLE_OF = {**SECTION_TABLES, "expr": CAPABILITIES, "response": FIELDS, "mapping": FIELDS}


@dataclass(frozen=True, slots=True)
class RegisteredEndpoint:
    name: str
    role: str
    is_default: bool
    linked_endpoint: str | None


@dataclass(frozen=True, slots=True)
class Credential:
    """Where a secret is: `reference` is {"secret": {"env"|"file"|"store": …}, "clientId": the same}."""

    name: str
    type: str
    reference: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class RegisteredSource:
    """One version. `document` is canonical; `origins` says where in its file each dotted key stands."""

    provenance_code: str
    name: str
    version: int
    endpoints: Mapping[str, RegisteredEndpoint]
    credentials: Mapping[str, Credential]
    document: Mapping[str, Any]
    origins: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, frozenset[str]] = field(default_factory=dict)  # the dictionaries, aliases included
    updated_at: datetime | None = None
    updated_by: str | None = None
    is_active: bool = True
    allows_private: bool = (
        False  # applied by the command line: addresses inside our own network are the operator's wish
    )

    @property
    def default_endpoint(self) -> str | None:
        """The one that is meant when none is named, if that is clear."""
        return default_endpoint(dict(self.document["endpoints"]))

    def levels(self, endpoint_name: str) -> "list[Level]":
        """What is said of an endpoint, the weakest first: by the source, by its defaults, by its sections.

        One level for each line of the file, so that a value's origin is where it is written; without a file, one for
        each table.
        """
        endpoint = self.document["endpoints"][endpoint_name]
        at = f"endpoints.{endpoint_name}"
        made = self._lines("source", "defaults", self.document["defaults"])
        made += self._link(at, endpoint)
        made += self._lines("endpoint", f"{at}.defaults", endpoint.get("defaults", {}))
        made += self._lines("section", at, {name: endpoint[name] for name in SECTIONS if name in endpoint})
        return made

    def _link(self, at: str, endpoint: Mapping[str, Any]) -> "list[Level]":
        """The endpoint's own word for the details, at the key that has it in snapshots."""
        from penstock.harvest.compiling.merge import Level

        if endpoint.get("linkedEndpoint") is None:
            return []
        written = self.origins.get(f"{at}.linkedEndpoint")
        link = {"batching": {"twoPhase": {"linkedEndpoint": endpoint["linkedEndpoint"]}}}
        return [Level("endpoint", ENDPOINTS if written is None else f"{written} {at}", link)]

    def _lines(self, level: str, at: str, sections: Mapping[str, Any]) -> "list[Level]":
        from penstock.harvest.compiling.merge import Level

        said: dict[str, dict[str, Any]] = {}
        for path, value in _leaves((), sections):
            origin = self._origin(level, at, path)
            inner = said.setdefault(origin, {})
            for step in path[:-1]:
                inner = inner.setdefault(step, {})
            inner[path[-1]] = value
        return [Level(level, origin, part) for origin, part in said.items()]

    def _origin(self, level: str, at: str, path: tuple[str, ...]) -> str:
        written = self.origins.get(".".join((at, *path)))
        if written is not None:
            return f"{written} {at}"
        if level != "section":
            return "reg_provenance" if level == "source" else ENDPOINTS
        return _TABLE_OF.get(path[0], ENDPOINTS)

    @classmethod
    def of(cls, document: Mapping[str, Any], *, version: int, **known: Any) -> "RegisteredSource":
        """`document` must be canonical."""
        return cls(
            document["source"],
            document["name"],
            version,
            {
                name: RegisteredEndpoint(name, each["role"], each.get("default", False), each.get("linkedEndpoint"))
                for name, each in document["endpoints"].items()
            },
            {
                name: Credential(name, each["type"], {key: value for key, value in each.items() if key != "type"})
                for name, each in document["credentials"].items()
            },
            document,
            **known,
        )


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if path and not (isinstance(value, Mapping) and value):
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves((*path, key), inner)
