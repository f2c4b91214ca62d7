"""All SQL of the overview. Nothing here writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.kernel.db import Tx, fetch_all, fetch_one

_LIVE = "('QUEUED', 'DISPATCHED', 'EXECUTING')"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far some plans are. Counts are of runs that began since a given moment, tasks are all there are."""

    tasks: int = 0
    done: int = 0
    failed: int = 0
    queued: int = 0
    requests: int = 0
    served: int = 0
    inserted: int = 0
    updated: int = 0
    skipped: int = 0
    quarantined: int = 0
    expected: int | None = None  # items of the tasks that are left, as estimated
    window_from: datetime | None = None
    window_to: datetime | None = None
    holders: Mapping[str, int] = field(default_factory=dict)  # executor → tasks
    held_until: datetime | None = None  # the last lease of those
    resting_until: datetime | None = None
    resting_reason: str | None = None
    next_at: datetime | None = None  # the first of the waiting tasks may be claimed then
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """A run that ended with an error."""

    run_id: int
    task_id: int
    code: str
    message: str
    status: str  # of the task
    window_from: datetime | None
    window_to: datetime | None
    at: datetime | None


async def live_plans(tx: Tx, source: str) -> set[int]:
    """Plans that have tasks waiting or running."""
    rows = await fetch_all(
        tx, f"select distinct plan_id from ing_task where provenance_code = %s and status_code in {_LIVE}", (source,)
    )
    return {row["plan_id"] for row in rows}


async def progress_of(tx: Tx, source: str, plans: Sequence[int], since: datetime) -> Progress:
    values = {"source": source, "plans": list(plans), "since": since}
    tasks = await fetch_one(
        tx,
        f"select count(*) as tasks, count(*) filter (where t.status_code in ('SUCCEEDED', 'PARTIAL')) as done,"
        f" count(*) filter (where t.status_code = 'FAILED') as failed,"
        f" count(*) filter (where t.status_code = 'QUEUED') as queued,"
        f" sum((s.slice_spec ->> 'totalEstimated')::bigint) filter (where t.status_code in {_LIVE})::bigint"
        f" as expected,"
        f" min(t.scheduled_at) filter (where t.status_code = 'QUEUED') as next_at, clock_timestamp() as now"
        f" from ing_task t join ing_plan_slice s on s.id = t.slice_id where t.plan_id = any(%(plans)s)",
        values,
    )
    runs = await fetch_one(
        tx,
        "select coalesce(sum((stats ->> 'reqCount')::bigint), 0)::bigint as requests,"
        " coalesce(sum((stats ->> 'retCount')::bigint), 0)::bigint as served,"
        " coalesce(sum((stats ->> 'inserted')::bigint), 0)::bigint as inserted,"
        " coalesce(sum((stats ->> 'updated')::bigint), 0)::bigint as updated,"
        " coalesce(sum((stats ->> 'skipped')::bigint), 0)::bigint as skipped,"
        " coalesce(sum((stats ->> 'failed')::bigint), 0)::bigint as quarantined"
        " from ing_task_run where created_at >= %(since)s"
        " and task_id in (select id from ing_task where plan_id = any(%(plans)s))",
        values,
    )
    window = await fetch_one(
        tx,
        "select min(window_from) as window_from, max(window_to) as window_to from ing_plan where id = any(%(plans)s)",
        values,
    )
    return Progress(**(tasks or {}), **(runs or {}), **(window or {}), **await _who_and_rest(tx, source))


async def _who_and_rest(tx: Tx, source: str) -> dict[str, Any]:
    holders = await fetch_all(
        tx,
        "select lease_owner, count(*) as tasks, max(leased_until) as until from ing_task"
        f" where provenance_code = %s and status_code in {_LIVE} and leased_until is not null group by lease_owner",
        (source,),
    )
    rest = await fetch_one(
        tx,
        "select not_before as resting_until, reason as resting_reason from ing_partition"
        " where provenance_code = %s and not_before > clock_timestamp() order by not_before desc limit 1",
        (source,),
    )
    return {
        "holders": {row["lease_owner"]: row["tasks"] for row in holders},
        "held_until": max((row["until"] for row in holders), default=None),
        **(rest or {}),
    }


async def troubles_of(tx: Tx, plans: Sequence[int], since: datetime, after_run: int = 0) -> list[Trouble]:
    """Runs that ended with an error, the oldest first."""
    rows = await fetch_all(
        tx,
        "select r.id as run_id, t.id as task_id, r.error, t.status_code, r.window_from, r.window_to, r.finished_at"
        " from ing_task t join ing_task_run r on r.task_id = t.id where t.plan_id = any(%s) and r.error is not null"
        " and r.finished_at >= %s and r.id > %s order by r.id limit 200",
        (list(plans), since, after_run),
    )
    return [
        Trouble(
            row["run_id"], row["task_id"], str(row["error"].get("code")), str(row["error"].get("message") or ""),
            row["status_code"], row["window_from"], row["window_to"], row["finished_at"],
        )
        for row in rows
    ]  # fmt: skip


async def last_base_url(tx: Tx, source: str) -> tuple[str, datetime] | None:
    """Where the newest plan of the source asks, and when the first one was made."""
    row = await fetch_one(
        tx,
        "select p.expr_proto_snapshot #>> '{http,baseUrl}' as url,"
        " (select min(created_at) from ing_plan f where f.provenance_code = p.provenance_code) as first"
        " from ing_plan p where p.provenance_code = %s order by p.id desc limit 1",
        (source,),
    )
    return None if row is None else (row["url"] or "", row["first"])


async def share_standin(tx: Tx, source: str) -> None:
    """Held by everybody who uses the stand-in of a source, for as long as the connection lives, or until let go."""
    await tx.execute("select pg_advisory_lock_shared(hashtextextended(%s, 0))", (f"standin {source}",))


async def let_go_of_standin(tx: Tx, source: str) -> None:
    await tx.execute("select pg_advisory_unlock_shared(hashtextextended(%s, 0))", (f"standin {source}",))


async def is_standin_unused(tx: Tx, source: str) -> bool:
    """True when nobody shares it, and then nobody new does before the connection lets go."""
    row = await fetch_one(tx, "select pg_try_advisory_lock(hashtextextended(%s, 0)) as alone", (f"standin {source}",))
    return bool(row and row["alone"])


async def schedules_of(tx: Tx, source: str) -> int:
    row = await fetch_one(
        tx, "select count(*) as n from reg_schedule where provenance_code = %s and is_active", (source,)
    )
    return 0 if row is None else int(row["n"])


# --- status ------------------------------------------------------------------------------------------------
# A window that another task has stored since is no failure any more.
_STILL_FAILED = """t.status_code = 'FAILED' and not exists (
      select from ing_plan q join ing_cursor c using (provenance_code, operation_code, cursor_key,
        namespace_scope_code, namespace_key)
      where q.id = t.plan_id and c.covered @> tstzrange(t.window_from, t.window_to))"""
_STATUS = f"""
select p.provenance_code as source, p.endpoint_name as endpoint, p.operation_code as operation,
  case when p.not_before > clock_timestamp() then p.not_before end as resting_until,
  case when p.not_before > clock_timestamp() then p.reason end as resting_reason,
  p.clock_behind, t.queued, t.running, t.failed, c.watermark, b.last_at, b.today, e.errors
from ing_partition p
cross join lateral (
  select count(*) filter (where status_code = 'QUEUED') as queued,
    count(*) filter (where status_code in ('DISPATCHED', 'EXECUTING')) as running,
    count(*) filter (where finished_at > now() - interval '7 days' and {_STILL_FAILED}) as failed
  from ing_task t where t.provenance_code = p.provenance_code and t.endpoint_name = p.endpoint_name
    and t.operation_code = p.operation_code and t.status_code in ('FAILED', 'QUEUED', 'DISPATCHED', 'EXECUTING')
) t
left join lateral (
  select max(normalized_instant) as watermark from ing_cursor c where c.provenance_code = p.provenance_code
    and c.endpoint_name = p.endpoint_name and c.operation_code = p.operation_code and c.cursor_type_code = 'TIME'
    and c.direction_code = 'FORWARD'
) c on true
left join lateral (
  select max(created_at) as last_at,
    coalesce(sum((stats ->> 'inserted')::bigint + (stats ->> 'updated')::bigint + (stats ->> 'skipped')::bigint)
      filter (where created_at >= date_trunc('day', now(), 'UTC')), 0)::bigint as today
  from ing_task_run_batch b where b.provenance_code = p.provenance_code and b.operation_code = p.operation_code
    and b.endpoint_name = p.endpoint_name and b.created_at >= now() - interval '30 days'
) b on true
left join lateral (
  select jsonb_agg(last) as errors from (
    select jsonb_build_object('code', t.error ->> 'code', 'message', t.error ->> 'message',
      'at', t.finished_at, 'from', t.window_from, 'to', t.window_to) as last
    from ing_task t where t.provenance_code = p.provenance_code and t.endpoint_name = p.endpoint_name
      and t.operation_code = p.operation_code and t.error is not null and {_STILL_FAILED}
    order by t.finished_at desc nulls last limit 3) newest
) e on true
where %(source)s::text is null or p.provenance_code = %(source)s
order by 1, 2, 3
"""


async def status_of(tx: Tx, source: str | None) -> list[dict[str, Any]]:
    """One row for each source, endpoint and operation that ever had a plan."""
    return await fetch_all(tx, _STATUS, {"source": source})


# --- cursors -----------------------------------------------------------------------------------------------
async def cursors_of(tx: Tx, source: str | None) -> list[dict[str, Any]]:
    """`beyond`: windows that are stored, but not yet counted because something before them is missing."""
    return await fetch_all(
        tx,
        "select provenance_code as source, endpoint_name as endpoint, operation_code as operation, cursor_key as key,"
        " namespace_scope_code as scope, namespace_key as namespace, cursor_type_code as type,"
        " direction_code as direction, cursor_value as value, origin_instant as origin,"
        " observed_max_value as observed_max, updated_at,"
        " array(select array[lower(r), upper(r)] from unnest(covered) r where case direction_code"
        "  when 'FORWARD' then lower(r) > coalesce(normalized_instant, origin_instant)"
        "  else upper(r) < coalesce(normalized_instant, origin_instant) end order by r) as beyond"
        " from ing_cursor where %(source)s::text is null or provenance_code = %(source)s"
        " order by 1, 2, 3, updated_at",
        {"source": source},
    )


async def cursor_events(tx: Tx, source: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest first."""
    return await fetch_all(
        tx,
        "select id, provenance_code as source, endpoint_name as endpoint, operation_code as operation,"
        " namespace_key as namespace, prev_value, new_value, covered_from, covered_to, plan_id, task_id, run_id,"
        " created_at from ing_cursor_event where %(source)s::text is null or provenance_code = %(source)s"
        " order by id desc limit %(limit)s",
        {"source": source, "limit": limit},
    )
