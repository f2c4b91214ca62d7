"""The SQL of looking at the harvest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from penstock.harvest.states import TaskStatus
from penstock.kernel import error_codes
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

MOST_STRETCHES = 100  # of a cursor that are told
_SUMS = {
    "requests": "reqCount", "received": "retCount", "inserted": "inserted", "updated": "updated",
    "skipped": "skipped", "failed": "failed", "retries": "retryCount", "throttled": "429Count",
}  # fmt: skip
_PLAN = (
    "select id as plan_id, provenance_code as source, endpoint_name as endpoint, operation_code as operation,"
    " plan_strategy_code as strategy, window_from, window_to, status_code as status, namespace_key as namespace,"
    " priority, expr_proto_hash, spec_fingerprint, (expr_proto_snapshot ->> 'registryVersion')::int as source_version,"
    " record_remarks as remarks, created_at, updated_at,"
    " (select count(*) from ing_plan_slice s where s.plan_id = p.id) as slices from ing_plan p where id = %s"
)
_TASKS = (
    "select id as task_id, plan_id, slice_id, provenance_code as source, endpoint_name as endpoint,"
    " operation_code as operation, namespace_key as namespace, status_code as status, window_from, window_to,"
    " priority, attempts, error, lease_owner as executor, leased_until, scheduled_at, started_at, finished_at,"
    " created_at from ing_task"
)
_CURSORS = (
    "select id as cursor_id, provenance_code as source, endpoint_name as endpoint, operation_code as operation,"
    " cursor_key as key, cursor_type_code as type, namespace_scope_code as scope, namespace_key as namespace,"
    " direction_code as direction, cursor_value as value, origin_instant as origin, observed_max_value as observed_max,"
    " plan_id, created_at, updated_at, (select count(*) from unnest(covered)) as stretches,"
    " (select coalesce(jsonb_agg(jsonb_build_object('start', lower(r), 'end', upper(r)) order by r), '[]') from"
    f"  (select r from unnest(covered) r order by r limit {MOST_STRETCHES}) told) as covered from ing_cursor"
)
_EVENTS = (
    "select id as event_id, provenance_code as source, endpoint_name as endpoint, operation_code as operation,"
    " cursor_key as key, namespace_scope_code as scope, namespace_key as namespace, direction_code as direction,"
    " prev_value, new_value, covered_from, covered_to, observed_max_value as observed_max, plan_id, slice_id, task_id,"
    " run_id, batch_id, created_at from ing_cursor_event"
)


@dataclass(frozen=True, slots=True)
class Part:
    """Which rows are wanted: equal in these columns, with an id before or after this one."""

    limit: int
    beyond: int | None = None
    equal: Mapping[str, Any] = field(default_factory=dict)  # None: any
    statuses: Sequence[TaskStatus] = ()


async def plan(tx: Tx, plan_id: int) -> dict[str, Any]:
    """With its tasks by status, and what their runs did in all. PLAN_UNKNOWN."""
    row = await fetch_one(tx, _PLAN, (plan_id,))
    if row is None:
        raise PenstockError(error_codes.PLAN_UNKNOWN, plan_id=plan_id)
    counted = await fetch_all(
        tx, "select status_code, count(*) as n from ing_task where plan_id = %s group by status_code", (plan_id,)
    )
    sums = ", ".join(
        f"coalesce(sum((r.stats ->> '{key}')::bigint), 0)::bigint as {name}" for name, key in _SUMS.items()
    )
    done = await fetch_one(
        tx, f"select {sums} from ing_task t join ing_task_run r on r.task_id = t.id where t.plan_id = %s", (plan_id,)
    )
    return {**row, "tasks_by_status": {each["status_code"]: each["n"] for each in counted}, "sums": done}


async def tasks(tx: Tx, part: Part) -> list[dict[str, Any]]:
    """The newest first."""
    return await _newest(tx, _TASKS, part)


async def cursors(tx: Tx, part: Part) -> list[dict[str, Any]]:
    """The newest first; of what they cover, the first hundred stretches."""
    return await _newest(tx, _CURSORS, part)


async def cursor_events(tx: Tx, part: Part) -> list[dict[str, Any]]:
    """The newest first."""
    return await _newest(tx, _EVENTS, part)


async def schedules(tx: Tx, provenance_code: str) -> list[dict[str, Any]]:
    return await fetch_all(
        tx,
        "select endpoint_name as endpoint, operation_code as operation, cron,"
        " extract(epoch from every)::float as every_seconds, params, is_active, next_run_at, last_run_at, last_error"
        " from reg_schedule where provenance_code = %s order by endpoint_name, operation_code",
        (provenance_code,),
    )


async def _newest(tx: Tx, query: str, part: Part) -> list[dict[str, Any]]:
    asked = {name: value for name, value in part.equal.items() if value is not None}
    terms: list[sql.Composable] = [
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in asked
    ]
    if part.statuses:
        terms.append(sql.SQL("status_code = any(%(statuses)s)"))
    if part.beyond is not None:
        terms.append(sql.SQL("id < %(beyond)s"))
    where = sql.SQL(" where {}").format(sql.SQL(" and ").join(terms)) if terms else sql.SQL("")
    values = {**asked, "statuses": list(map(str, part.statuses)), "beyond": part.beyond, "limit": part.limit}
    whole = sql.SQL("{}{} order by id desc limit %(limit)s").format(sql.SQL(query), where)
    return await fetch_all(tx, whole, values)
