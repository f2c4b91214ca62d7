"""A source as the tables have it: what the compiler, the planner and the callers work with."""

from collections.abc import Mapping
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

    @property
    def default_endpoint(self) -> str | None:
        """The one that is meant when none is named, if that is clear."""
        return default_endpoint(dict(self.document["endpoints"]))

    def levels(self, endpoint_name: str) -> "list[Level]":
        """What is said of an endpoint, the weakest first: by the source, by its defaults, by its sections."""
        from penstock.harvest.compiling.merge import Level

        endpoint = self.document["endpoints"][endpoint_name]
        at = f"endpoints.{endpoint_name}"
        made = [
            Level("source", self._origin("defaults", "reg_provenance"), self.document["defaults"]),
            Level("endpoint", self._origin(f"{at}.defaults", ENDPOINTS), endpoint.get("defaults", {})),
        ]
        made += [
            Level("section", self._origin(f"{at}.{name}", _TABLE_OF.get(name, ENDPOINTS)), {name: endpoint[name]})
            for name in SECTIONS
            if name in endpoint
        ]
        return made

    def _origin(self, key: str, table: str) -> str:
        return f"{self.origins[key]} {key}" if key in self.origins else table

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
