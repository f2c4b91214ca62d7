"""Slices that are cut out of one that turned out too full, in the transaction that ends it."""

from collections.abc import Sequence

from penstock.harvest.planning import store
from penstock.harvest.planning.drafting import Draft
from penstock.harvest.planning.filling import write_slices
from penstock.harvest.planning.job import job_of
from penstock.harvest.slices import Bounds, Dimension, Span, TimeBounds
from penstock.kernel.db import Tx


async def queue_parts(tx: Tx, plan_id: int, parent_id: int, parts: Sequence[Span], comment: str) -> None:
    """One task each; the queue's limit does not hold for what was in it already."""
    row = await store.plan(tx, plan_id)
    if row is None:
        raise LookupError(f"plan {plan_id} is gone")
    drafts = [
        Draft(Dimension.TIME, Bounds(time=TimeBounds(from_=part.start, to=part.end)), comment=comment) for part in parts
    ]
    await store.set_parent(tx, await write_slices(tx, job_of(row), drafts), parent_id)
