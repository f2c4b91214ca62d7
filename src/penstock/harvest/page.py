"""One answer of a source, read: columns, not objects, because millions of items go through here."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class FaultKind(StrEnum):
    """Why an item is not a record."""

    NO_ID = "NO_ID"
    BAD_UPDATED_AT = "BAD_UPDATED_AT"
    FIELD_MISSING = "FIELD_MISSING"
    NOT_READABLE = "NOT_READABLE"
    NO_DETAIL = "NO_DETAIL"  # asked for by id, and not in the answer


@dataclass(frozen=True, slots=True)
class Fault:
    """An item that goes to quarantine; the others of its page are stored."""

    item_no: int  # from 0, in the answer
    kind: FaultKind
    reason: str
    sample: bytes
    provider_id: str | None = None


@dataclass(slots=True)
class Page:
    """`ids`, `updated`, `bodies` and the optional columns run in parallel. A list of ids alone has only `ids`."""

    ids: list[str] = field(default_factory=list)
    updated: list[datetime] = field(default_factory=list)  # UTC
    bodies: list[bytes] = field(default_factory=list)  # as they came
    versions: list[str | None] | None = None
    deleted: list[bool] | None = None
    fields: list[bytes] | None = None  # mapped, JSON
    faults: list[Fault] = field(default_factory=list)
    served: int = 0  # items in the answer, faults included
    total: int | None = None
    next_token: str | None = None
    next_url: str | None = None
    has_more: bool | None = None
    is_truncated: bool = False
