"""All SQL of claiming and running tasks. Statuses are written by the state machine alone."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

import psycopg

from penstock.kernel import error_codes, json
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

# Claiming ------------------------------------------------------------------------------------------------------
_PARTITIONS = """
select p.provenance_code, p.endpoint_name, p.operation_code, p.c_max, p.source_max
from ing_partition p
cross join lateral (
  select t.priority from ing_task t
  where t.provenance_code = p.provenance_code and t.endpoint_name = p.endpoint_name
    and t.operation_code = p.operation_code and t.status_code = 'QUEUED' and t.leased_until is null
    and t.scheduled_at <= clock_timestamp()
  order by t.priority, t.scheduled_at, t.id limit 1
) first
left join (select scope, count(*) as held from ing_slot where task_id is not null group by scope) used
  on used.scope = p.provenance_code || '/' || p.endpoint_name || '/' || p.operation_code
where p.not_before <= clock_timestamp() and coalesce(used.held, 0) < p.c_max
  and (%(sources)s::text[] is null or p.provenance_code = any(%(sources)s))
order by first.priority, coalesce(used.held, 0)::float / p.c_max, random()
"""


async def partitions_with_work(tx: Tx, sources: Sequence[str] | None) -> list[dict[str, Any]]:
    """Those that have a task ready and a slot free, in the order in which they should be served."""
    return await fetch_all(tx, _PARTITIONS, {"sources": None if sources is None else list(sources)})


_FREE_SLOT = (
    "slot{n} as materialized (select scope, slot_no from ing_slot where scope = %(scope{n})s"
    " and slot_no < %(limit{n})s and task_id is null order by slot_no limit 1 for update skip locked)"
)
_NEXT_TASK = """
slots as materialized ({slots}),
chosen as materialized (
  select * from ing_task
  where provenance_code = %(source)s and endpoint_name = %(endpoint)s and operation_code = %(operation)s
    and status_code = 'QUEUED' and leased_until is null and scheduled_at <= clock_timestamp()
    and (select count(*) from slots) = {count}
  order by priority, scheduled_at, id limit 1 for update skip locked),
occupied as (
  update ing_slot set task_id = chosen.id from chosen, slots
  where ing_slot.scope = slots.scope and ing_slot.slot_no = slots.slot_no)
select chosen.*, clock_timestamp() as taken_at, nextval('ing_task_run_id_seq') as run_id from chosen
"""


@lru_cache(maxsize=8)
def _next_task(count: int) -> str:
    """A free slot of each scope and a task are locked, and the slots are the task's; or there is no row.

    Whether a slot or a task is free is read from the row that was locked, not from what the statement saw at first.
    """
    slots = ", ".join(_FREE_SLOT.format(n=n) for n in range(count))
    listed = (
        " union all ".join(f"select * from slot{n}" for n in range(count)) or "select '' as scope, 0 as slot_no limit 0"
    )
    return f"with {slots}{', ' if slots else ''}{_NEXT_TASK.format(slots=listed, count=count)}"


async def lock_next_task(tx: Tx, partition: Mapping[str, Any], limits: Mapping[str, int]) -> dict[str, Any] | None:
    """The next task, in slots of its own until it is let go; None: none is left, or some scope has no slot."""
    values = {
        "source": partition["provenance_code"],
        "endpoint": partition["endpoint_name"],
        "operation": partition["operation_code"],
    }
    for n, (scope, limit) in enumerate(limits.items()):
        values |= {f"scope{n}": scope, f"limit{n}": limit}
    return await fetch_one(tx, _next_task(len(limits)), values)


async def make_slots(tx: Tx, limits: Mapping[str, int]) -> None:
    """In one order, so that executors which begin together wait for each other and never in a circle."""
    await tx.execute(
        "insert into ing_slot (scope, slot_no) select scope, n"
        " from unnest(%s::text[], %s::int[]) as given (scope, most), generate_series(0, most - 1) n"
        ' order by scope collate "C", n on conflict do nothing',
        (list(limits), list(limits.values())),
    )


FREE_SLOTS = "update ing_slot set task_id = null where task_id = any(%(task_ids)s)"


async def free_slots(tx: Tx, task_ids: Sequence[int]) -> None:
    await tx.execute(FREE_SLOTS, {"task_ids": list(task_ids)})


async def free_forgotten_slots(tx: Tx) -> int:
    """Slots whose task nobody holds. There are none; should a fault of ours make one, it does not last."""
    rows = await fetch_all(
        tx,
        "update ing_slot s set task_id = null where task_id is not null and not exists"
        " (select from ing_task t where t.id = s.task_id and t.leased_until is not null) returning 1",
    )
    return len(rows)


async def silent_tasks(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Tasks whose executor has not renewed in time, locked; rows that somebody is working on are passed over."""
    return await fetch_all(
        tx,
        "select id, status_code, lease_token, attempts, plan_id from ing_task where leased_until < clock_timestamp()"
        " and status_code in ('DISPATCHED', 'EXECUTING') order by leased_until limit %s for update skip locked",
        (limit,),
    )


# Runs ------------------------------------------------------------------------------------------------------------
# A new attempt; it begins where the one before it ended.
INSERT_RUN = """
insert into ing_task_run (id, task_id, provenance_code, endpoint_name, operation_code, attempt_no, status_code,
    executor, checkpoint, window_from, window_to) overriding system value
  values (%(run_id)s, %(task_id)s, %(provenance_code)s, %(endpoint_name)s, %(operation_code)s, %(attempt_no)s,
    'PLANNED', %(executor)s,
    (select checkpoint from ing_task_run where task_id = %(task_id)s order by attempt_no desc limit 1),
    %(window_from)s, %(window_to)s)
  returning id
"""


async def note_start(tx: Tx, task_id: int) -> None:
    await tx.execute("update ing_task set started_at = coalesce(started_at, now()) where id = %s", (task_id,))


async def open_runs(tx: Tx, task_id: int) -> list[dict[str, Any]]:
    return await fetch_all(
        tx,
        "select id, status_code, stats <> '{}' as has_stored from ing_task_run"
        " where task_id = %s and status_code in ('PLANNED', 'RUNNING')",
        (task_id,),
    )


async def load_work(tx: Tx, task_id: int, run_id: int) -> dict[str, Any]:
    """Everything a run needs to know."""
    row = await fetch_one(
        tx,
        "select p.id as plan_id, p.schedule_instance_id, p.expr_proto_snapshot, p.expr_proto_hash, p.spec_fingerprint,"
        " p.cursor_key, p.cursor_type_code, p.namespace_scope_code, p.namespace_key, p.direction_code,"
        " s.id as slice_id, s.slice_spec, s.expr_snapshot, s.expr_hash, s.slice_signature_hash, r.checkpoint,"
        " coalesce(a.clock_behind, '0') as clock_behind"
        " from ing_task t join ing_plan p on p.id = t.plan_id join ing_plan_slice s on s.id = t.slice_id"
        " join ing_task_run r on r.id = %s left join ing_partition a on a.provenance_code = t.provenance_code"
        " and a.endpoint_name = t.endpoint_name and a.operation_code = t.operation_code where t.id = %s",
        (run_id, task_id),
    )
    if row is None:
        raise LookupError(f"task {task_id} has lost its plan or slice")
    return row


async def ids_seen(tx: Tx, task_id: int) -> list[tuple[int, bytes]]:
    """What the lists of this task have held so far, as hashes, each with the number of its reading."""
    rows = await fetch_all(
        tx,
        "select coalesce((stats ->> 'reading')::int, 1) as reading, ids_hash from ing_task_run_batch"
        " where ids_hash is not null and run_id = any(array(select id from ing_task_run where task_id = %s))",
        (task_id,),
    )
    return [(row["reading"], bytes(row["ids_hash"])) for row in rows]


async def bad_ids(tx: Tx, provenance_code: str, endpoint_name: str, ids: Sequence[str]) -> set[str]:
    """Ids that have had no details three times: they are not asked for again by lists."""
    rows = await fetch_all(
        tx,
        "select provider_id from ing_quarantine where provenance_code = %s and endpoint_name = %s"
        " and provider_id = any(%s) and reason_code = 'NO_DETAIL' and released_at is null"
        " group by provider_id having count(distinct run_id) >= 3",
        (provenance_code, endpoint_name, list(ids)),
    )
    return {row["provider_id"] for row in rows}


# Batches ---------------------------------------------------------------------------------------------------------
_BATCH = (
    "run_id", "task_id", "slice_id", "plan_id", "expr_hash", "provenance_code", "endpoint_name", "operation_code",
    "batch_no", "page_no", "page_size", "before_token", "after_token", "before_url", "next_url", "window_from",
    "window_to", "request", "response_digest", "stats", "status_code", "error", "ids_hash", "idempotent_key",
)  # fmt: skip
_INSERT_BATCH = (
    f"insert into ing_task_run_batch ({', '.join(_BATCH)}) values ({', '.join(f'%({name})s' for name in _BATCH)})"
    " returning id"
)


async def insert_batch(tx: Tx, batch: Mapping[str, Any]) -> int:
    try:
        row = await fetch_one(tx, _INSERT_BATCH, {**dict.fromkeys(_BATCH), **batch})
    except psycopg.errors.UniqueViolation as known:
        if known.diag.constraint_name != "uk_run_before_tok":
            raise
        raise PenstockError(
            error_codes.SOURCE_ENDLESS, reason="the source leads back to a token it gave before"
        ) from known
    return 0 if row is None else int(row["id"])


async def note_progress(tx: Tx, run_id: int, checkpoint: str | None, stats: Mapping[str, Any]) -> None:
    await tx.execute(
        "update ing_task_run set checkpoint = %s::jsonb, stats = %s::jsonb where id = %s",
        (checkpoint, json.dumps(dict(stats)), run_id),
    )


async def note_clock(tx: Tx, where: tuple[str, str, str], clock_behind: timedelta) -> None:
    """How far the source's clock is behind ours: for all operations, as some may not ask again for a long time."""
    await tx.execute(
        "update ing_partition p set clock_behind = %s, updated_at = now() from ("
        "  select operation_code from ing_partition where provenance_code = %s and endpoint_name = %s"
        "  order by operation_code for update"
        ") each where p.provenance_code = %s and p.endpoint_name = %s and p.operation_code = each.operation_code"
        " and p.clock_behind <> %s",
        (clock_behind, *where[:2], *where[:2], clock_behind),
    )


async def hold_partition(tx: Tx, where: tuple[str, str, str], seconds: float, reason: str) -> None:
    """No executor takes a task of it for so long."""
    await tx.execute(
        "update ing_partition set not_before = greatest(not_before, clock_timestamp() + %s), reason = %s,"
        " updated_at = now() where provenance_code = %s and endpoint_name = %s and operation_code = %s",
        (timedelta(seconds=seconds), reason, *where),
    )


async def hold_source(tx: Tx, source: str, hold: timedelta, reason: str) -> None:
    """No executor takes a task of any of its endpoints for so long, or until it is released."""
    await tx.execute(
        "update ing_partition set not_before = greatest(not_before, clock_timestamp() + %s), reason = %s,"
        " updated_at = now() where provenance_code = %s",
        (hold, reason, source),
    )


async def release_source(tx: Tx, source: str, reason: str) -> None:
    """Ends what `hold_source` began for that reason; other reasons to rest stay."""
    await tx.execute(
        "update ing_partition set not_before = '-infinity', reason = null, updated_at = now()"
        " where provenance_code = %s and reason = %s",
        (source, reason),
    )


async def live_tasks(tx: Tx, sources: Sequence[str] | None) -> dict[str, Any]:
    """How many wait or run, and when the next of those that wait may be claimed."""
    row = await fetch_one(
        tx,
        "select count(*) as live, count(*) filter (where leased_until is not null) as held,"
        " min(greatest(t.scheduled_at, p.not_before)) filter (where t.leased_until is null) as next_at"
        " from ing_task t left join ing_partition p using (provenance_code, endpoint_name, operation_code)"
        " where t.status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING')"
        " and (%(sources)s::text[] is null or t.provenance_code = any(%(sources)s))",
        {"sources": None if sources is None else list(sources)},
    )
    return row or {"live": 0, "held": 0, "next_at": None}


async def queue_lengths(tx: Tx) -> list[dict[str, Any]]:
    """Of every partition, also of those in which nothing waits."""
    return await fetch_all(
        tx,
        "select p.provenance_code, p.endpoint_name, p.operation_code, count(t.id) as queued"
        " from ing_partition p left join ing_task t on t.status_code = 'QUEUED' and t.leased_until is null"
        " and (t.provenance_code, t.endpoint_name, t.operation_code) ="
        " (p.provenance_code, p.endpoint_name, p.operation_code) group by 1, 2, 3",
    )


async def harvests_reached(tx: Tx) -> list[dict[str, Any]]:
    """Up to which moment each endpoint is whole; of several questions to it, the one that is furthest behind."""
    return await fetch_all(
        tx,
        "select provenance_code, endpoint_name, operation_code,"
        " min(coalesce(normalized_instant, origin_instant)) as reached from ing_cursor"
        " where operation_code = 'HARVEST' and cursor_type_code = 'TIME'"
        " and coalesce(normalized_instant, origin_instant) is not null group by 1, 2, 3",
    )
