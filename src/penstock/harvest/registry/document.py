"""One source, as its YAML file describes it. `read_source` returns a whole document or all problems of the file.

Invariant: `canonical()` is the same for files that mean the same, whatever their order, comments and way of writing
durations; it is what the tables hold and what versions are compared by. It never holds a secret.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PrivateAttr, StringConstraints, ValidationError

from penstock.harvest.registry import rules, secrets
from penstock.harvest.registry.canonical import canonical_document
from penstock.harvest.registry.findings import report_all
from penstock.harvest.registry.partial import Given, partial_of
from penstock.harvest.spec import Duration, Operation, Sections
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.yaml_text import FILE_BYTES, Problem, Text, dotted, read_text

if TYPE_CHECKING:
    PartialSections = Given
else:
    PartialSections = partial_of(Sections)

Code = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]


class SecretPlace(Given):
    """Where a secret is kept; exactly one of the three. The secret itself is never written in a source file."""

    env: str | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name of an environment variable"
    )  # fmt: skip
    file: str | None = Field(None, min_length=1, description="Path of a file that holds nothing else")
    store: str | None = Field(None, min_length=1, description="Name in the directory PENSTOCK_HARVEST_SECRETS")


class CredentialEntry(Given):
    """What proves who we are; endpoints name it in auth.credentialRef."""

    type: Literal["API_KEY", "BEARER", "OAUTH2", "CUSTOM"] = Field(description="How it is used; as auth.type")
    secret: SecretPlace = Field(description="The key, the token or the client's secret")
    client_id: SecretPlace | None = Field(None, description="OAUTH2: the client's id, kept like a secret")


class Endpoint(PartialSections):
    """One way to ask the source. Its sections win over its defaults, these over the source's."""

    role: Literal["SEARCH", "DETAIL", "METRICS"] = Field("SEARCH", description="What it answers with")
    is_default: bool = Field(False, alias="default", description="Meant by commands that name no endpoint")
    linked_endpoint: Code | None = Field(None, description="Of a SEARCH: the endpoint that has the details")
    defaults: PartialSections | None = Field(None, description="Weaker than the sections beside it")


class Schedule(Given):
    """When an operation is planned by itself."""

    endpoint: Code | None = Field(None, description="Without it, the default endpoint")
    operation: Operation = Field(description="What is planned")
    cron: str | None = Field(None, description="Five fields, UTC; or `every`")
    every: Duration | None = Field(None, description="Such as 10m or PT10M; or `cron`")
    params: dict[str, str] = Field(default_factory=dict, description="Handed to the plan")


class SourceDocument(Given):
    """A source: where it is, how it is asked, how its answers are read."""

    source: Code = Field(description="Its code, for ever: records and cursors are kept under it")
    name: str = Field(min_length=1, max_length=200, description="For people")
    description: str = Field("", max_length=4000, description="For people")
    defaults: PartialSections | None = Field(None, description="Sections for all endpoints; each may say otherwise")
    credentials: dict[Code, CredentialEntry] = Field(default_factory=dict, description="By name")
    endpoints: dict[Code, Endpoint] = Field(min_length=1, description="By name")
    schedules: tuple[Schedule, ...] = Field((), description="At most one for each endpoint and operation")

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _is_remote: bool = PrivateAttr(default=False)

    @property
    def is_remote(self) -> bool:
        """It came over the API, from someone who is trusted with the sources but not with the machine."""
        return self._is_remote

    def mark_remote(self) -> None:
        self._is_remote = True

    @property
    def origins(self) -> Mapping[str, str]:
        """Dotted key → file:line."""
        return self._origins

    def remember_places(self, origins: Mapping[str, str]) -> None:
        self._origins.update(origins)

    def canonical(self) -> dict[str, Any]:
        return canonical_document(self.model_dump(mode="json", by_alias=True, exclude_unset=True))


def fingerprint(canonical: Mapping[str, Any]) -> str:
    packed = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(packed.encode()).hexdigest()


def read_source(content: bytes, file: str) -> SourceDocument:
    """SOURCE_FILE_INVALID with all problems."""
    document, problems = try_source(content, file)
    if document is None:
        raise PenstockError(error_codes.SOURCE_FILE_INVALID, problems=[each.as_dict() for each in problems])
    return document


def try_source(content: bytes, file: str) -> tuple[SourceDocument | None, list[Problem]]:
    text = read_text(content, file, first_key="source")
    document = None
    if isinstance(text.values, dict):
        secrets.check(text)
        document = _validated(text)
        rules.check(text)
    if text.problems or document is None:
        return None, sorted(text.problems, key=lambda each: (each.line, each.column))
    document.remember_places({dotted(path): f"{file}:{line}" for path, (line, _) in text.places.items()})
    return document, []


def _validated(text: Text) -> SourceDocument | None:
    try:
        return SourceDocument.model_validate(text.values)
    except ValidationError as wrong:
        report_all(text, wrong, SourceDocument)
        return None


def read_source_file(path: Path, shown_as: str | None = None) -> tuple[SourceDocument | None, list[Problem]]:
    """No more is read than a source file may have."""
    with path.open("rb") as opened:
        return try_source(opened.read(FILE_BYTES + 1), shown_as or str(path))
