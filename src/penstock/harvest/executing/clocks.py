"""The source's clock against ours: how far a window that was read may be closed.

A source whose clock is behind still stamps new records with moments that a plan took for past, if the plan was made
before anybody had seen that clock. Whoever reads such a window sees the clock in the answer, tells the planner, and
closes only what the source itself has left behind by the safety lag; the rest is read again by a later plan. No clock
is wrong by days: an answer that says so is an old copy, or its date is made up, and must not hold us back.
"""

from datetime import datetime, timedelta

import msgspec

from penstock.harvest.executing.position import Position
from penstock.harvest.planning.windows import Wish, safe_end
from penstock.harvest.slices import Span
from penstock.harvest.spec import Operation, Spec

_NOISE = timedelta(seconds=5)  # the way of an answer and whole seconds in it; the safety lag is there for those
_STEP = timedelta(seconds=10)  # rounded up to this, so that it seldom changes
_MOST = timedelta(days=1)  # more than the wrong time zone


def is_believable(measured: timedelta) -> bool:
    return measured <= _MOST


def clock_behind(measured: timedelta) -> timedelta:
    """As it is counted with: never too little, except for noise."""
    return timedelta(0) if measured < _NOISE else -(-measured // _STEP) * _STEP


def held_back(spec: Spec, span: Span | None, position: Position, wish: Wish) -> Position:
    """The position after a page that was asked for at `wish.now`, with what was not safe then."""
    if spec.operation is not Operation.HARVEST or span is None or not wish.clock_behind:
        return position
    safe = min(filter(None, (position.safe_to, safe_end(spec, wish))))
    return position if safe >= span.end else msgspec.structs.replace(position, safe_to=safe)


def closable(span: Span, safe_to: datetime | None) -> Span | None:
    """What of a window that was read may be closed."""
    if safe_to is None or safe_to >= span.end:
        return span
    return Span(span.start, safe_to) if safe_to > span.start else None
