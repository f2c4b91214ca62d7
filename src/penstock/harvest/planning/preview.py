"""A look ahead: what a trigger would queue, with estimates. Nothing is written."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from penstock.harvest import cursors
from penstock.harvest.planning import candidates, drafting, remarks, store, windows
from penstock.harvest.planning.drafting import Draft
from penstock.harvest.planning.estimates import PlanEstimates
from penstock.harvest.planning.job import cursor_of, span_text
from penstock.harvest.planning.slicing import Grid, id_stretches
from penstock.harvest.planning.store_update import Choice
from penstock.harvest.planning.trigger import Candidates, Compiled, Preview, PreviewSlice, Trigger
from penstock.harvest.slices import Dimension, Span
from penstock.kernel.errors import Sentence

if TYPE_CHECKING:
    from penstock.harvest.planning.plan import Planner

MOST_SHOWN = 1_000


async def preview(planner: "Planner", trigger: Trigger) -> Preview:
    compiled = await planner.load_and_compile(trigger)
    spec, strategy = compiled.spec, drafting.strategy_of(compiled.spec)
    async with planner.database.transaction() as tx:
        aim = await planner.aim_at(tx, compiled, trigger, 0)
    namespace = cursor_of(spec, trigger, 0).namespace
    if isinstance(aim, Sentence):
        return Preview(spec, strategy, None, namespace, (), False, {}, aim)
    window = aim.stretch.window if aim.stretch else None
    estimates = PlanEstimates(planner.estimator, compiled, planner.settings.count_calls)
    most = min(MOST_SHOWN, spec.planning.queue_limit)
    shown: list[PreviewSlice] = []
    is_cut_short = False
    priority = spec.planning.priorities.get(spec.operation, 100)
    async for draft in _drafts(planner, trigger, compiled, estimates):
        if len(shown) == most:
            is_cut_short = True
            break
        made = drafting.slice_spec_of(spec, draft, priority)
        shown.append(PreviewSlice(len(shown) + 1, made, drafting.expected_requests(spec, draft)))
    told = {
        "totalEstimated": sum(each.spec.total_estimated or 0 for each in shown),
        "sliceCount": len(shown),
        "window": remarks.window_remark(spec, span_text(window)),
        "degradation": remarks.degradations(compiled, estimates.notes, strategy),
        "budget": {"maxRequests": sum(each.requests for each in shown), "qps": spec.rate_limit.qps},
    }
    return Preview(spec, strategy, window, namespace, tuple(shown), is_cut_short, told)


async def _drafts(
    planner: "Planner", trigger: Trigger, compiled: Compiled, estimates: PlanEstimates
) -> AsyncIterator[Draft]:
    spec, strategy = compiled.spec, drafting.strategy_of(compiled.spec)
    if strategy is Dimension.TIME:
        async for draft in drafting.window_drafts(spec, await _spans(planner, trigger, compiled), estimates):
            yield draft
        return
    if strategy is Dimension.PAGE:
        drafts = await drafting.page_drafts(spec, estimates)
    elif strategy is Dimension.SCAN:
        async with planner.database.transaction() as tx:
            cursor = await cursors.find(tx, cursor_of(spec, trigger, 0))
        drafts = [drafting.scan_draft(cursor.value if cursor else None)]
    else:
        drafts = await _id_drafts(planner, trigger, compiled)
    for draft in drafts:
        yield draft


async def _spans(planner: "Planner", trigger: Trigger, compiled: Compiled) -> list[Span]:
    async with planner.database.transaction() as tx:
        aim = await planner.aim_at(tx, compiled, trigger, 0)
        if isinstance(aim, Sentence) or aim.stretch is None:
            return []
        busy = await store.live_windows(tx, store.partition_of(compiled.spec), aim.name.namespace)
        cursor = await cursors.find(tx, aim.name)
    window = aim.stretch.window
    left = windows.to_do(window, aim.stretch.rereads, cursor.covered if cursor else (), busy)
    return windows.on_steps(left, Grid.of(compiled.spec.window), window)


async def _id_drafts(planner: "Planner", trigger: Trigger, compiled: Compiled) -> list[Draft]:
    spec, wanted = compiled.spec, trigger.candidates or Candidates()
    limit = planner.settings.update_limit if wanted.limit is None else wanted.limit
    choice = Choice(spec.provenance_code, spec.endpoint_name, 0, limit)
    async with planner.database.transaction() as tx:
        chosen = await candidates.choose(tx, spec, wanted, choice, compiled.expr_proto_hash)
    planning = spec.planning
    return [drafting.id_draft(each) for each in id_stretches(chosen, 0, planning.ids_per_slice, planning.id_buckets)]
