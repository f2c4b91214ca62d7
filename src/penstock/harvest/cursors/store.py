"""All SQL of cursors."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.harvest.cursors.cursor import Cursor, CursorName, Direction, Scope
from penstock.harvest.slices import Span
from penstock.harvest.spec import CursorType, Operation
from penstock.kernel.db import Tx, fetch_all, fetch_one

_MINE = (
    "provenance_code = %(provenance_code)s and operation_code = %(operation_code)s and cursor_key = %(cursor_key)s"
    " and namespace_scope_code = %(namespace_scope_code)s and namespace_key = %(namespace_key)s"
)
_COLUMNS = (
    "id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,"
    " cursor_type_code, direction_code, cursor_value, normalized_instant, normalized_numeric, observed_max_value,"
    " origin_instant, array(select lower(r) from unnest(covered) r order by r) as starts,"
    " array(select upper(r) from unnest(covered) r order by r) as ends, updated_at"
)
# The end of the stretch that is whole: of the range that holds the origin, or touches it from the side we came from.
_WHOLE_TO = (
    "case direction_code when 'FORWARD'"
    " then (select upper(r) from unnest({covered}) r where r @> origin_instant)"
    " else (select lower(r) from unnest({covered}) r where lower(r) < origin_instant"
    "  and upper(r) >= origin_instant) end"
)
_LINEAGE = ("schedule_instance_id", "plan_id", "slice_id", "task_id", "run_id", "batch_id", "expr_hash")


async def find(tx: Tx, name: CursorName) -> Cursor | None:
    row = await fetch_one(tx, f"select {_COLUMNS} from ing_cursor where {_MINE}", name.identity())
    return None if row is None else _cursor(row)


async def open_cursor(tx: Tx, name: CursorName, origin: datetime | None = None) -> Cursor:
    """The cursor, made now if this is the first time. The origin of one that exists stays as it is."""
    values = {
        **name.identity(), "endpoint_name": name.endpoint_name, "type": str(name.type),
        "direction": str(name.direction), "origin": origin,
        "value": None if origin is None else origin.isoformat(),
        "position": 0 if origin is None and name.type is not CursorType.TOKEN else None,
    }  # fmt: skip
    await tx.execute(
        "insert into ing_cursor (provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,"
        " namespace_key, cursor_type_code, direction_code, cursor_value, normalized_instant, origin_instant,"
        " normalized_numeric, origin_numeric)"
        " values (%(provenance_code)s, %(endpoint_name)s, %(operation_code)s, %(cursor_key)s, %(namespace_scope_code)s,"
        " %(namespace_key)s, %(type)s, %(direction)s, %(value)s, %(origin)s, %(origin)s, %(position)s, %(position)s)"
        " on conflict on constraint uk_cursor_ns do nothing",
        values,
    )
    found = await find(tx, name)
    if found is None:
        raise LookupError(f"no cursor {name} right after it was made")
    return found


async def uncovered(tx: Tx, name: CursorName, span: Span) -> list[Span]:
    """What of the span is not stored yet, in order."""
    rows = await fetch_all(
        tx,
        "select lower(r) as start, upper(r) as end from unnest(tstzmultirange(tstzrange(%(start)s, %(end)s))"
        f" - coalesce((select covered from ing_cursor where {_MINE}), '{{}}')) r order by r",
        {**name.identity(), "start": span.start, "end": span.end},
    )
    return [Span(row["start"], row["end"]) for row in rows]


async def all_cursors(tx: Tx, provenance_code: str | None = None) -> list[Cursor]:
    rows = await fetch_all(
        tx,
        f"select {_COLUMNS} from ing_cursor where %(source)s::text is null or provenance_code = %(source)s"
        " order by provenance_code, endpoint_name, operation_code, created_at",
        {"source": provenance_code},
    )
    return [_cursor(row) for row in rows]


async def timeline(tx: Tx, name: CursorName, *, limit: int = 50) -> list[dict[str, Any]]:
    """The newest events of a cursor first."""
    return await fetch_all(
        tx,
        "select id, prev_value, new_value, covered_from, covered_to, observed_max_value, plan_id, slice_id, task_id,"
        f" run_id, batch_id, record_remarks, created_at from ing_cursor_event where {_MINE}"
        " order by id desc limit %(limit)s",
        {**name.identity(), "limit": limit},
    )


async def lock(tx: Tx, name: CursorName) -> dict[str, Any]:
    """Its row as it is now; nobody else changes it before this transaction ends."""
    row = await fetch_one(
        tx,
        "select id, endpoint_name, direction_code, cursor_value, normalized_instant, normalized_numeric,"
        f" observed_max_value from ing_cursor where {_MINE} for update",
        name.identity(),
    )
    if row is None:
        raise LookupError(f"no cursor {name}: the planner opens it before anything is queued")
    return row


async def whole_to(tx: Tx, cursor_id: int, span: Span) -> datetime | None:
    """Where the whole stretch would end with this span added; none: it does not begin yet."""
    covered = "covered + tstzmultirange(tstzrange(%(start)s, %(end)s))"
    row = await fetch_one(
        tx,
        f"select {_WHOLE_TO.format(covered=covered)} as reached from ing_cursor where id = %(id)s",
        {"id": cursor_id, "start": span.start, "end": span.end},
    )
    return None if row is None else row["reached"]


async def whole_to_position(tx: Tx, cursor_id: int, start: int, end: int) -> int:
    """As `whole_to`, for positions in a list of candidates."""
    row = await fetch_one(
        tx,
        "select coalesce((select upper(r) from unnest(covered_numeric + nummultirange(numrange(%(start)s, %(end)s))) r"
        " where r @> 0::numeric), 0)::bigint as reached from ing_cursor where id = %(id)s",
        {"id": cursor_id, "start": start, "end": end},
    )
    return 0 if row is None else int(row["reached"])


async def candidate_before(tx: Tx, plan_id: int | None, position: int) -> tuple[str | None, datetime | None]:
    """The last candidate of the slice that ends at this position: its id and when it was last looked at."""
    row = await fetch_one(
        tx,
        "select slice_spec #>> '{bounds,id,to}' as id, (slice_spec #>> '{bounds,id,checkedTo}')::timestamptz as checked"
        " from ing_plan_slice where plan_id = %s and (slice_spec #>> '{bounds,id,end}')::bigint = %s limit 1",
        (plan_id, position),
    )
    return (None, None) if row is None else (row["id"], row["checked"])


async def write_event(tx: Tx, name: CursorName, facts: Mapping[str, Any]) -> bool:
    """Append it; false when it is there already, and then there is nothing left to do."""
    columns = ("prev_value", "new_value", "prev_instant", "new_instant", "prev_numeric", "new_numeric", "covered_from",
               "covered_to", "observed_max_value", "idempotent_key", "record_remarks", *_LINEAGE)  # fmt: skip
    row = await fetch_one(
        tx,
        "insert into ing_cursor_event (provenance_code, endpoint_name, operation_code, cursor_key,"
        f" namespace_scope_code, namespace_key, cursor_type_code, direction_code, {', '.join(columns)})"
        " values (%(provenance_code)s, %(endpoint_name)s, %(operation_code)s, %(cursor_key)s, %(namespace_scope_code)s,"
        f" %(namespace_key)s, %(type)s, %(direction)s, {', '.join(f'%({column})s' for column in columns)})"
        " on conflict on constraint uk_cur_evt_idem do nothing returning 1",
        {
            **dict.fromkeys(columns), "record_remarks": "{}", **name.identity(), "endpoint_name": name.endpoint_name,
            "type": str(name.type), "direction": str(name.direction), **facts,
        },
    )  # fmt: skip
    return row is not None


async def set_value(tx: Tx, cursor_id: int, changes: Mapping[str, Any]) -> None:
    """`covered` and `covered_numeric` are added to, never replaced."""
    await tx.execute(
        "update ing_cursor set cursor_value = %(new_value)s, normalized_instant = %(new_instant)s,"
        " normalized_numeric = %(new_numeric)s, observed_max_value = coalesce(%(observed_max_value)s,"
        "  observed_max_value), covered = covered + case when %(start)s::timestamptz is null then '{}'"
        "  else tstzmultirange(tstzrange(%(start)s, %(end)s)) end,"
        " covered_numeric = covered_numeric + case when %(first)s::numeric is null then '{}'"
        "  else nummultirange(numrange(%(first)s, %(last)s)) end,"
        " version = version + 1, updated_at = now(), schedule_instance_id = %(schedule_instance_id)s,"
        " plan_id = %(plan_id)s, slice_id = %(slice_id)s, task_id = %(task_id)s, run_id = %(run_id)s,"
        " batch_id = %(batch_id)s, expr_hash = %(expr_hash)s where id = %(id)s",
        {**dict.fromkeys(("start", "end", "first", "last", *_LINEAGE)), **changes, "id": cursor_id},
    )


def _cursor(row: Mapping[str, Any]) -> Cursor:
    name = CursorName(
        row["provenance_code"], row["endpoint_name"], Operation(row["operation_code"]), row["cursor_key"],
        CursorType(row["cursor_type_code"]), Scope(row["namespace_scope_code"]), row["namespace_key"],
        Direction(row["direction_code"]),
    )  # fmt: skip
    return Cursor(
        name,
        row["cursor_value"],
        row["normalized_instant"],
        None if row["normalized_numeric"] is None else int(row["normalized_numeric"]),
        row["origin_instant"],
        tuple(Span(start, end) for start, end in zip(row["starts"], row["ends"], strict=True)),
        row["observed_max_value"],
        row["updated_at"],
    )
