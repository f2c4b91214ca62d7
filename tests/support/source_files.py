"""A source file as the compiler sees it: endpoints, credentials and levels, straight from YAML."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from penstock.harvest.compiling.merge import Level

_OF_AN_ENDPOINT = {"role", "default", "linkedEndpoint", "defaults"}


@dataclass(frozen=True)
class WrittenEndpoint:
    role: str
    linked_endpoint: str | None


@dataclass(frozen=True)
class WrittenSource:
    document: Mapping[str, Any]
    file: str = "demo.yaml"
    version: int = 1

    @classmethod
    def read(cls, path: Path) -> "WrittenSource":
        return cls(yaml.safe_load(path.read_text()), path.name)

    @property
    def provenance_code(self) -> str:
        return self.document["source"]

    @property
    def credentials(self) -> Mapping[str, Any]:
        return {
            name: SimpleNamespace(type=said.get("type")) for name, said in self.document.get("credentials", {}).items()
        }

    @property
    def endpoints(self) -> Mapping[str, WrittenEndpoint]:
        return {
            name: WrittenEndpoint(said.get("role", "SEARCH"), said.get("linkedEndpoint"))
            for name, said in self.document["endpoints"].items()
        }

    def levels(self, endpoint_name: str) -> list[Level]:
        said = self.document["endpoints"][endpoint_name]
        place = f"{self.file} endpoints.{endpoint_name}"
        own = {name: value for name, value in said.items() if name not in _OF_AN_ENDPOINT}
        return [
            Level("source", f"{self.file} defaults", self.document.get("defaults", {})),
            Level("endpoint", f"{place}.defaults", said.get("defaults", {})),
            Level("section", place, own),
        ]
