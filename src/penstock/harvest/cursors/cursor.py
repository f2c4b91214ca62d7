"""What a cursor is called, what it says, and who moved it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from penstock.harvest.slices import Span
from penstock.harvest.spec import CursorType, Operation


class Scope(StrEnum):
    """Who shares a cursor."""

    GLOBAL = "GLOBAL"  # all endpoints of the source
    EXPR = "EXPR"  # everybody who asks the endpoint the same question
    CUSTOM = "CUSTOM"  # one backfill or one refresh


class Direction(StrEnum):
    FORWARD = "FORWARD"
    BACKFILL = "BACKFILL"


@dataclass(frozen=True, slots=True)
class CursorName:
    provenance_code: str
    endpoint_name: str
    operation: Operation
    key: str  # updated_at, refresh_checked_at, provider_id, page_token
    type: CursorType
    scope: Scope
    namespace: str
    direction: Direction = Direction.FORWARD

    def identity(self) -> dict[str, str]:
        """Its unique key, as columns."""
        return {
            "provenance_code": self.provenance_code, "operation_code": str(self.operation), "cursor_key": self.key,
            "namespace_scope_code": str(self.scope), "namespace_key": self.namespace,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lineage:
    """Who closed something: from the trigger down to the batch."""

    schedule_instance_id: int | None = None
    plan_id: int | None = None
    slice_id: int | None = None
    task_id: int | None = None
    run_id: int | None = None
    batch_id: int | None = None
    expr_hash: str | None = None

    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Closing:
    """A part of the work that is wholly stored."""

    lineage: Lineage
    observed_max: datetime | None = None  # the newest updatedAt that was seen in it
    remarks: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    name: CursorName
    value: str | None
    instant: datetime | None
    numeric: int | None
    origin: datetime | None
    covered: tuple[Span, ...]
    observed_max: str | None
    updated_at: datetime
