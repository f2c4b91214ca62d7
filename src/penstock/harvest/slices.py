"""A slice: the part of a plan that one task works through. Written to `slice_spec`, read back by the executor.

Invariant: spans are half open and in UTC; what a source wants to hear (inclusive ends, its own steps) is made of them
only where a request is rendered.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """[start, end) in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise ValueError(f"a span must not be empty: {self.start} … {self.end}")


class Dimension(StrEnum):
    TIME = "TIME"  # a window
    PAGE = "PAGE"  # a stretch of pages
    ID = "ID"  # given ids
    SCAN = "SCAN"  # from a token or an id onwards, for sources without windows


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class TimeBounds(_Part):
    from_: datetime = Field(alias="from")
    to: datetime

    @property
    def span(self) -> Span:
        return Span(self.from_, self.to)


class PageBounds(_Part):
    from_page: int  # counted from 0, whatever the source does
    to_page: int  # not included
    page_size: int


class IdBounds(_Part):
    """A stretch of the plan's candidates, in their order: [first, last] by value, [start, end) by position."""

    from_: str = Field(alias="from")
    to: str
    start: int
    end: int
    hash_bucket: int | None = None
    checked_to: datetime | None = None  # candidates by age: when the last of them was last looked at


class ScanBounds(_Part):
    after: str | None = None  # a token, or an id


class Bounds(_Part):
    time: TimeBounds | None = None
    page: PageBounds | None = None
    id: IdBounds | None = None
    scan: ScanBounds | None = None


class Budget(_Part):
    max_requests: int | None = None
    max_duration_sec: int = 900
    priority: int = 100


class SliceSpec(_Part):
    dimension: Dimension
    bounds: Bounds
    two_phase: bool = False
    id_batch_size: int | None = None
    pagination_type: str | None = None
    safety_lag: str | None = None
    watermark_key: str | None = None
    budget: Budget = Budget()
    total_estimated: int | None = None
    comment: str | None = None

    @property
    def span(self) -> Span | None:
        return self.bounds.time.span if self.bounds.time else None

    def stored(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class LocalExpr(_Part):
    """What a slice adds to the plan's snapshot (`expr_snapshot`): with both, every request can be made again."""

    proto_hash: str
    bounds: Bounds
    params: dict[str, str] = Field(default_factory=dict)
    ids: tuple[str, ...] = ()  # dimension ID: what to fetch

    def stored(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def half_of(span: Span, granularity: timedelta) -> datetime | None:
    """A moment in the middle that the source can be asked about; None: it is as small as can be."""
    steps = (span.end - span.start) // granularity
    return span.start + granularity * (steps // 2) if steps >= 2 else None
