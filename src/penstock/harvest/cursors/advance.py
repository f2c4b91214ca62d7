"""Moving a cursor: the event first, then the value, in the transaction that stores what was read."""

from datetime import datetime
from typing import Any

from penstock.harvest.cursors import store
from penstock.harvest.cursors.cursor import Closing, CursorName
from penstock.harvest.slices import IdBounds, Span
from penstock.harvest.spec import CursorType
from penstock.kernel import json
from penstock.kernel.db import Tx


async def close_span(tx: Tx, name: CursorName, span: Span, closing: Closing) -> datetime | None:
    """The window is wholly stored; returns how far the cursor now reaches."""
    row = await store.lock(tx, name)
    reached = await store.whole_to(tx, row["id"], span) or row["normalized_instant"]
    facts = {
        **_before(row),
        "new_value": None if reached is None else reached.isoformat(),
        "new_instant": reached,
        "new_numeric": row["normalized_numeric"],
        "covered_from": span.start.isoformat(),
        "covered_to": span.end.isoformat(),
        **_about(row, closing),
        "idempotent_key": f"{closing.lineage.task_id}:{span.start.isoformat()}:{span.end.isoformat()}",
    }
    if await store.write_event(tx, name, facts):
        await store.set_value(tx, row["id"], {**facts, "start": span.start, "end": span.end})
    return reached


async def close_positions(tx: Tx, name: CursorName, bounds: IdBounds, closing: Closing) -> int:
    """These candidates have been looked at; returns how many there are before the first gap."""
    row = await store.lock(tx, name)
    reached = await store.whole_to_position(tx, row["id"], bounds.start, bounds.end)
    candidate, checked = await store.candidate_before(tx, closing.lineage.plan_id, reached)
    is_time = name.type is CursorType.TIME
    value = checked.isoformat() if is_time and checked else candidate
    facts = {
        **_before(row),
        "new_value": value or row["cursor_value"],
        "new_instant": (checked if is_time else None) or row["normalized_instant"],
        "new_numeric": reached,
        "covered_from": bounds.from_,
        "covered_to": bounds.to,
        **_about(row, closing),
        "idempotent_key": f"{closing.lineage.task_id}:{bounds.start}:{bounds.end}",
    }
    if await store.write_event(tx, name, facts):
        await store.set_value(tx, row["id"], {**facts, "first": bounds.start, "last": bounds.end})
    return reached


async def move_token(tx: Tx, name: CursorName, before: str | None, after: str, closing: Closing) -> bool:
    """Go on from `before` to `after`; false when somebody has moved it meanwhile, or an id would go back."""
    row = await store.lock(tx, name)
    number = int(after) if name.type is CursorType.ID and after.isdigit() else None
    is_next = row["cursor_value"] == before
    if name.type is CursorType.ID:
        is_next = number is not None and number > (row["normalized_numeric"] or -1)
    if not is_next:
        return False
    lineage = closing.lineage
    facts = {
        **_before(row),
        "new_value": after,
        "new_instant": None,
        "new_numeric": number,
        **_about(row, closing),
        "idempotent_key": f"{lineage.run_id}:{lineage.batch_id}:{after}",
    }
    if await store.write_event(tx, name, facts):
        await store.set_value(tx, row["id"], facts)
    return True


def _before(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "prev_value": row["cursor_value"],
        "prev_instant": row["normalized_instant"],
        "prev_numeric": row["normalized_numeric"],
    }


def _about(row: dict[str, Any], closing: Closing) -> dict[str, Any]:
    known = row["observed_max_value"]
    seen = [moment for moment in (known and datetime.fromisoformat(known), closing.observed_max) if moment]
    return {
        "observed_max_value": max(seen).isoformat() if seen else None,
        "record_remarks": json.dumps(dict(closing.remarks or {})),
        **closing.lineage.columns(),
    }
