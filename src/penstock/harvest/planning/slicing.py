"""Cutting a plan into slices: windows, stretches of pages, stretches of ids. Pure: the same input, the same slices.

Invariant: the windows of a span are a partition of it, without gap or overlap, each at most `maxWindow` wide, cut where
both `align` and the source's granularity have a tick in UTC. A window that holds too much is halved, never below
max(minWindow, granularity); one that still holds more than can be paged through is kept and marked.
"""

import math
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from penstock.harvest.slices import IdBounds, PageBounds, Span
from penstock.harvest.spec import Spec, Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_ALIGN = {
    "sec": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}

Count = Callable[[Span], Awaitable[int | None]]


@dataclass(frozen=True, slots=True)
class Grid:
    """Where windows may be cut, and how wide they may be."""

    unit: timedelta
    granularity: timedelta
    widest: timedelta
    narrowest: timedelta

    @classmethod
    def of(cls, window: Window) -> "Grid":
        granularity = max(window.granularity, _TICK)
        unit = math.lcm(_ALIGN[window.align] // _TICK, granularity // _TICK) * _TICK
        return cls(unit, granularity, max(window.max_window, _TICK), max(window.min_window, granularity))

    def floor(self, moment: datetime) -> datetime:
        return _floor(moment, self.unit)

    def ceil(self, moment: datetime) -> datetime:
        return _ceil(moment, self.unit)

    def widened(self, span: Span) -> Span:
        """To whole steps: of a part of a step the source cannot be asked."""
        return Span(self.step_floor(span.start), self.step_ceil(span.end))

    def step_floor(self, moment: datetime) -> datetime:
        return _floor(moment, self.granularity)

    def step_ceil(self, moment: datetime) -> datetime:
        return _ceil(moment, self.granularity)

    def step_up(self, start: datetime) -> datetime:
        """The end of the widest window that begins here; off the grid only where no tick is near enough."""
        ends = (_floor(start + self.widest, step) for step in (self.unit, self.granularity))
        return next((end for end in ends if end > start), start + self.widest)

    def step_down(self, end: datetime) -> datetime:
        starts = (_ceil(end - self.widest, step) for step in (self.unit, self.granularity))
        return next((start for start in starts if start < end), end - self.widest)

    def middle(self, span: Span) -> datetime | None:
        """Where to halve it; none: its halves would be too narrow."""
        half = span.start + (span.end - span.start) / 2
        for step in (self.unit, self.granularity):
            for cut in (_floor(half, step), _ceil(half, step)):
                if cut - span.start >= self.narrowest and span.end - cut >= self.narrowest:
                    return cut
        return None


def _floor(moment: datetime, step: timedelta) -> datetime:
    return _EPOCH + (moment.astimezone(UTC) - _EPOCH) // step * step


def _ceil(moment: datetime, step: timedelta) -> datetime:
    return _EPOCH - (_EPOCH - moment.astimezone(UTC)) // step * step


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one slice may hold."""

    items: int
    requests: int | None
    reach: int | None  # no more results than this can be paged through
    page_size: int
    id_batch_size: int | None  # two-phase: details per request

    @classmethod
    def of(cls, spec: Spec) -> "Limits":
        pagination = spec.pagination
        reaches = [pagination.ceiling, pagination.max_page and pagination.max_page * pagination.page_size]
        known = [reach for reach in reaches if reach]
        return cls(
            spec.planning.slice_items,
            spec.planning.slice_requests,
            min(known) if known else None,
            pagination.page_size,
            spec.batching.id_batch_size if spec.batching.two_phase.enabled else None,
        )

    def requests_for(self, items: int | None) -> int:
        """Expected; at least the one that finds out that there is nothing."""
        pages = max(1, math.ceil((items or 0) / self.page_size))
        details = math.ceil((items or 0) / self.id_batch_size) if self.id_batch_size else 0
        return pages + details

    def is_out_of_reach(self, items: int | None) -> bool:
        return items is not None and self.reach is not None and items > self.reach

    def is_too_much(self, items: int | None) -> bool:
        if items is None:
            return False
        too_long = self.requests is not None and self.requests_for(items) > self.requests
        return items > self.items or too_long or self.is_out_of_reach(items)


@dataclass(frozen=True, slots=True)
class Cut:
    """One window and what is known of it."""

    span: Span
    estimate: int | None
    is_halved: bool = False  # cut narrower than maxWindow, because of the estimate
    is_over: bool = False  # cannot be cut any further and still holds more than can be paged through


def windows(span: Span, grid: Grid, *, newest_first: bool = False) -> Iterator[Span]:
    """The widest windows that the source allows, in order; lazily, because there may be millions."""
    start, end = span.start.astimezone(UTC), span.end.astimezone(UTC)
    while start < end:
        if newest_first:
            edge = max(start, grid.step_down(end))
            yield Span(edge, end)
            end = edge
        else:
            edge = min(end, grid.step_up(start))
            yield Span(start, edge)
            start = edge


async def halve(window: Span, grid: Grid, limits: Limits, count: Count, *, newest_first: bool = False) -> list[Cut]:
    """The window in as many parts as it takes. Only left halves are counted; the right one is the rest."""
    done: list[Cut] = []
    open_: list[Cut] = [Cut(window, await count(window))]
    while open_:
        part = open_.pop()
        edge = grid.middle(part.span) if limits.is_too_much(part.estimate) else None
        if edge is None or part.estimate is None:
            over = limits.is_out_of_reach(part.estimate)
            done.append(Cut(part.span, part.estimate, part.span != window, over))
            continue
        left = Span(part.span.start, edge)
        counted = await count(left)
        first = part.estimate // 2 if counted is None else min(counted, part.estimate)
        halves = [Cut(left, first), Cut(Span(edge, part.span.end), part.estimate - first)]
        open_ += halves if newest_first else halves[::-1]
    return done


def page_stretches(total: int, page_size: int, per_slice: int, most: int | None = None) -> list[PageBounds]:
    """Stretches that end behind the estimate, so that what came since is read too; `most` is the last page there is."""
    pages = total // page_size + 1
    slices = math.ceil((min(pages, most) if most else pages) / per_slice)
    ends = [min((number + 1) * per_slice, most) if most else (number + 1) * per_slice for number in range(slices)]
    return [
        PageBounds(from_page=number * per_slice, to_page=end, page_size=page_size) for number, end in enumerate(ends)
    ]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record to look at again."""

    provider_id: str
    checked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class IdStretch:
    bounds: IdBounds
    ids: tuple[str, ...]


def id_stretches(
    candidates: Sequence[Candidate], first: int, per_slice: int, buckets: int = 0, *, by_age: bool = False
) -> list[IdStretch]:
    """In the order of the candidates, or bucket by bucket; positions are counted from `first`, without gaps."""
    parts: list[tuple[int | None, list[Candidate]]] = [(None, list(candidates))]
    if buckets:
        ordered = sorted(candidates, key=lambda each: bucket_of(each.provider_id, buckets))
        grouped = groupby(ordered, key=lambda each: bucket_of(each.provider_id, buckets))
        parts = [(bucket, list(members)) for bucket, members in grouped]
    made: list[IdStretch] = []
    for bucket, members in parts:
        for offset in range(0, len(members), per_slice):
            made.append(_stretch(members[offset : offset + per_slice], first, bucket, by_age=by_age))
            first = made[-1].bounds.end
    return made


def bucket_of(provider_id: str, buckets: int) -> int:
    """Stable over processes and machines."""
    return zlib.crc32(provider_id.encode()) % buckets


def _stretch(members: Sequence[Candidate], first: int, bucket: int | None, *, by_age: bool) -> IdStretch:
    checked = members[-1].checked_at if by_age and bucket is None else None
    bounds = IdBounds(
        from_=members[0].provider_id,
        to=members[-1].provider_id,
        start=first,
        end=first + len(members),
        hash_bucket=bucket,
        checked_to=checked.astimezone(UTC) if checked else None,
    )
    return IdStretch(bounds, tuple(member.provider_id for member in members))


def affordable(requests: Sequence[int], budget: int | None, *, at_least: int = 0) -> int:
    """How many of the slices, from the first, the budget allows."""
    if budget is None:
        return len(requests)
    spent, count = 0, 0
    for each in requests:
        spent += each
        if spent > budget:
            break
        count += 1
    return min(len(requests), max(count, at_least))
