"""Cutting a slice that holds more than can be paged through, or that changes faster than it can be read: its rest
becomes smaller slices of the same plan. What fits on one page cannot shift.

The parent ends as PARTIAL and closes nothing; its children close the window among themselves. Both happen in one
transaction, so there is never a moment in which nobody is responsible for a part of the window.
"""

from datetime import timedelta

from penstock.harvest.executing.position import Overflow
from penstock.harvest.executing.work import Work
from penstock.harvest.planning.cutting import queue_parts
from penstock.harvest.slices import Span
from penstock.kernel.db import Tx

_MOST_PIECES = 64


async def cut(tx: Tx, work: Work, overflow: Overflow) -> bool:
    """False: the window is as small as the source can be asked for."""
    pieces = (
        [] if overflow.rest is None else cut_span(overflow.rest, work.spec.window.granularity, _pieces(work, overflow))
    )
    if len(pieces) < 2:
        return False
    await queue_parts(tx, work.row["plan_id"], work.row["slice_id"], pieces, f"cut: {overflow.reason}")
    return True


def _pieces(work: Work, overflow: Overflow) -> int:
    limit = work.course.page_limit
    if overflow.pages is not None:
        return max(2, min(_MOST_PIECES, overflow.pages))
    if overflow.total is None or not limit:
        return 2
    return max(2, min(_MOST_PIECES, -(-overflow.total * 10 // (limit * 7))))


def cut_span(span: Span, granularity: timedelta, pieces: int) -> list[Span]:
    """Equal parts on steps that the source knows; fewer when there are not so many steps."""
    steps = max(1, -(-(span.end - span.start) // granularity))
    pieces = min(pieces, steps)
    edges = [span.start + granularity * (steps * number // pieces) for number in range(pieces)]
    return [Span(start, end) for start, end in zip(edges, [*edges[1:], span.end], strict=True)]
