"""Cursors: how far a source has been read, proven by what is stored.

The truth of a TIME cursor is not a moment but a set of spans: every window whose last batch is committed is added to
`covered`, in whatever order executors finish. The value that people and planners see is derived: the end of the one
stretch of `covered` that begins at the cursor's origin. So

  - a window that failed, still runs, or was cut into smaller ones leaves a gap, and the value stays before the gap,
    however much lies behind it;
  - windows are half open, so that equal timestamps at an edge belong to exactly one of two neighbours;
  - `covered` only grows and the origin never moves, so the value only moves one way: towards the future (FORWARD), or
    towards the past for a backfill, which has its origin at its upper end.

An UPDATE works through a list of candidates. Its set holds positions in that list, its value is the id, or the age, of
the last candidate before the first gap. A TOKEN cursor is one value, moved only by who knows the one before.

Everything happens in the transaction that stores the batch, and in this order: the row is locked, the event is
written, then the value is changed. Whoever closes the same span again finds the event and changes nothing. Executors
that finish at the same moment wait for each other at the row, for microseconds, once per slice.
"""

from penstock.harvest.cursors.advance import close_positions, close_span, move_token
from penstock.harvest.cursors.cursor import Closing, Cursor, CursorName, Direction, Lineage, Scope
from penstock.harvest.cursors.store import all_cursors, find, open_cursor, timeline, uncovered

__all__ = [
    "Closing",
    "Cursor",
    "CursorName",
    "Direction",
    "Lineage",
    "Scope",
    "all_cursors",
    "close_positions",
    "close_span",
    "find",
    "move_token",
    "open_cursor",
    "timeline",
    "uncovered",
]
