"""From what is to do to slices as they are stored: bounds, estimate, budget, and the names made of them."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.harvest.durations import iso_text
from penstock.harvest.planning import identity, slicing
from penstock.harvest.planning.estimates import PlanEstimates
from penstock.harvest.planning.slicing import Cut, Grid, IdStretch, Limits
from penstock.harvest.planning.store import NewSlice
from penstock.harvest.planning.windows import common
from penstock.harvest.slices import Bounds, Budget, Dimension, LocalExpr, ScanBounds, SliceSpec, Span, TimeBounds
from penstock.harvest.spec import Operation, PageType, Spec


@dataclass(frozen=True, slots=True)
class Draft:
    """A slice before it has a plan."""

    dimension: Dimension
    bounds: Bounds
    estimate: int | None = None
    comment: str | None = None
    ids: tuple[str, ...] = ()
    is_over: bool = False

    @property
    def span(self) -> Span | None:
        return self.bounds.time.span if self.bounds.time else None


def strategy_of(spec: Spec) -> Dimension:
    """How this endpoint can be cut."""
    if spec.operation is Operation.UPDATE:
        return Dimension.ID
    window = spec.window
    if window.cursor_type == "TIME" and (window.supports_updated_since or window.client_filter):
        return Dimension.TIME
    if window.cursor_type == "TIME" and spec.pagination.type in (PageType.PAGE, PageType.OFFSET):
        return Dimension.PAGE
    return Dimension.SCAN


async def window_drafts(spec: Spec, spans: Sequence[Span], estimates: PlanEstimates) -> AsyncIterator[Draft]:
    """Lazily: only windows that find room are counted. A backfill goes from the newest to the oldest."""
    grid, limits = Grid.of(spec.window), Limits.of(spec)
    newest_first = spec.operation is Operation.BACKFILL
    for span in sorted(spans, reverse=newest_first):
        if spec.window.client_filter and not spec.window.supports_updated_since:
            # The source sends everything for every window: cutting it would only multiply the requests.
            yield _window_draft(Cut(span, await estimates.count(span)))
            continue
        for window in slicing.windows(span, grid, newest_first=newest_first):
            for cut in await slicing.halve(window, grid, limits, estimates.count, newest_first=newest_first):
                yield _window_draft(cut)


def _window_draft(cut: Cut) -> Draft:
    bounds = Bounds(time=TimeBounds(from_=cut.span.start, to=cut.span.end))
    comment = "over the ceiling at the narrowest window" if cut.is_over else "halved" if cut.is_halved else None
    return Draft(Dimension.TIME, bounds, cut.estimate, comment, is_over=cut.is_over)


def clipped(draft: Draft, spans: Sequence[Span]) -> Iterable[Draft]:
    """What of a window is still to do; somebody else may have taken part of it since it was cut."""
    if draft.span is None:
        yield draft
        return
    width = draft.span.end - draft.span.start
    for part in common(draft.span, spans):
        share = (part.end - part.start) / width
        estimate = None if draft.estimate is None else round(draft.estimate * share)
        yield replace(draft, bounds=Bounds(time=TimeBounds(from_=part.start, to=part.end)), estimate=estimate)


async def page_drafts(spec: Spec, estimates: PlanEstimates) -> list[Draft]:
    """Without an estimate: one slice that goes on to the end."""
    pagination = spec.pagination
    ceiling = pagination.ceiling and max(1, pagination.ceiling // pagination.page_size)
    most = min((each for each in (pagination.max_page, ceiling) if each), default=None)
    total = await estimates.count(None)
    if total is None:
        return [scan_draft(None)]
    stretches = slicing.page_stretches(total, pagination.page_size, spec.planning.pages_per_slice, most)
    return [
        Draft(Dimension.PAGE, Bounds(page=each), max(0, min(total, each.to_page * each.page_size)
              - each.from_page * each.page_size))
        for each in stretches
    ]  # fmt: skip


def scan_draft(after: str | None) -> Draft:
    return Draft(Dimension.SCAN, Bounds(scan=ScanBounds(after=after)))


def id_draft(stretch: IdStretch) -> Draft:
    return Draft(Dimension.ID, Bounds(id=stretch.bounds), len(stretch.ids), ids=stretch.ids)


def expected_requests(spec: Spec, draft: Draft) -> int:
    if draft.dimension is Dimension.ID:
        return -(-len(draft.ids) // spec.batching.id_batch_size)
    return Limits.of(spec).requests_for(draft.estimate)


def slice_spec_of(spec: Spec, draft: Draft, priority: int) -> SliceSpec:
    by_id = draft.dimension is Dimension.ID
    two_phase = by_id or spec.batching.two_phase.enabled
    known = draft.estimate is not None
    return SliceSpec(
        dimension=draft.dimension,
        bounds=draft.bounds,
        two_phase=two_phase,
        id_batch_size=spec.batching.id_batch_size if two_phase else None,
        pagination_type=spec.pagination.type and str(spec.pagination.type),
        safety_lag=iso_text(spec.window.safety_lag) if spec.operation is Operation.HARVEST else None,
        watermark_key=spec.window.watermark_key,
        budget=Budget(
            max_requests=expected_requests(spec, draft) if known else None,
            max_duration_sec=int(spec.planning.max_duration.total_seconds()),
            priority=priority,
        ),
        total_estimated=draft.estimate,
        comment=draft.comment,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a slice takes over from its plan."""

    spec: Spec
    proto_hash: str
    trigger: int
    priority: int


def written(plan: Plan, draft: Draft) -> NewSlice:
    """The slice and its task, with their names."""
    made = slice_spec_of(plan.spec, draft, plan.priority)
    local = LocalExpr(proto_hash=plan.proto_hash, bounds=draft.bounds, params=plan.spec.params, ids=draft.ids)
    expression = identity.expr_hash(local)
    signature = identity.slice_signature_hash(plan.spec, made, expression)
    stored = made.stored()
    params: dict[str, Any] = {"bounds": stored["bounds"], "params": dict(plan.spec.params)}
    key = identity.task_key(signature, expression, plan.spec.operation, plan.trigger, params)
    return NewSlice(stored, local.stored(), signature, expression, params, key, draft.span)
