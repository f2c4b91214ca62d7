"""The SQL of triggers, plans, slices, tasks and partitions, as far as planning goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import sql

from penstock.harvest.slices import Span
from penstock.harvest.spec import Spec
from penstock.harvest.states import PlanStatus, SliceStatus, TaskStatus
from penstock.kernel import json
from penstock.kernel.db import Tx, fetch_all, fetch_one

LIVE = (TaskStatus.QUEUED, TaskStatus.DISPATCHED, TaskStatus.EXECUTING)
Partition = tuple[str, str, str]  # source, endpoint, operation


def partition_of(spec: Spec) -> Partition:
    return (spec.provenance_code, spec.endpoint_name, str(spec.operation))


# --- triggers ----------------------------------------------------------------------------------------------
async def insert_instance(tx: Tx, columns: Mapping[str, Any]) -> int:
    """The row of this trigger, new or old."""
    row = await fetch_one(
        tx,
        "insert into ing_schedule_instance (scheduler_code, provenance_code, endpoint_name, operation_code,"
        " trigger_type_code, trigger_params, idempotent_key) values (%(scheduler_code)s, %(provenance_code)s,"
        " %(endpoint_name)s, %(operation_code)s, %(trigger_type_code)s, %(trigger_params)s::jsonb, %(idempotent_key)s)"
        " on conflict (idempotent_key) do nothing returning id",
        {**columns, "trigger_params": json.dumps(columns["trigger_params"])},
    )
    if row is None:
        key = (columns["idempotent_key"],)
        row = await fetch_one(tx, "select id from ing_schedule_instance where idempotent_key = %s", key)
    return _there(row)["id"]  # type: ignore[no-any-return]


async def instance_by_key(tx: Tx, idempotent_key: str) -> dict[str, Any]:
    """What the key was used for first."""
    return _there(
        await fetch_one(
            tx,
            "select provenance_code, endpoint_name, operation_code, trigger_params from ing_schedule_instance"
            " where idempotent_key = %s",
            (idempotent_key,),
        )
    )


async def lock_instance(tx: Tx, instance_id: int) -> dict[str, Any]:
    """With the plan that came of it, if one did: looked for once the row is ours, or it would be missed."""
    row = await fetch_one(tx, "select * from ing_schedule_instance where id = %s for update", (instance_id,))
    made = await fetch_one(tx, "select min(id) as id from ing_plan where schedule_instance_id = %s", (instance_id,))
    return {**_there(row), "plan_id": _there(made)["id"]}


async def note_instance(tx: Tx, instance_id: int, endpoint: str | None, remarks: Mapping[str, Any]) -> None:
    await tx.execute(
        "update ing_schedule_instance set record_remarks = %s::jsonb, endpoint_name = coalesce(%s, endpoint_name)"
        " where id = %s",
        (json.dumps(dict(remarks)), endpoint, instance_id),
    )


async def compiled_instance(tx: Tx, instance_id: int, endpoint: str, expr_proto_hash: str) -> None:
    await tx.execute(
        "update ing_schedule_instance set endpoint_name = %s, expr_proto_hash = %s, record_remarks = '{}'"
        " where id = %s",
        (endpoint, expr_proto_hash, instance_id),
    )


# --- plans -------------------------------------------------------------------------------------------------
async def insert_plan(tx: Tx, columns: Mapping[str, Any]) -> int:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    places = sql.SQL(", ").join(map(sql.Placeholder, columns))
    values = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in columns.items()}
    insert = sql.SQL("insert into ing_plan ({}) values ({}) returning id").format(names, places)
    return _there(await fetch_one(tx, insert, values))["id"]  # type: ignore[no-any-return]


async def plan(tx: Tx, plan_id: int) -> dict[str, Any] | None:
    return await fetch_one(tx, "select * from ing_plan where id = %s", (plan_id,))


async def lock_plan(tx: Tx, plan_id: int) -> dict[str, Any]:
    return _there(
        await fetch_one(tx, "select id, status_code, record_remarks from ing_plan where id = %s for update", (plan_id,))
    )


async def note_progress(tx: Tx, plan_id: int) -> None:
    """Somebody is at work on it: nobody else needs to take it up."""
    await tx.execute("update ing_plan set updated_at = clock_timestamp() where id = %s", (plan_id,))


async def totals(tx: Tx, plan_id: int) -> dict[str, Any]:
    return _there(
        await fetch_one(
            tx,
            "select count(*) as slices, sum((slice_spec ->> 'totalEstimated')::bigint)::bigint as estimated,"
            " sum((slice_spec #>> '{budget,maxRequests}')::bigint)::bigint as requests,"
            " (select count(*) from ing_task t where t.plan_id = %(plan)s) as tasks,"
            " avg(extract(epoch from (slice_spec #>> '{bounds,time,to}')::timestamptz"
            "  - (slice_spec #>> '{bounds,time,from}')::timestamptz))::float as seconds"
            " from ing_plan_slice where plan_id = %(plan)s",
            {"plan": plan_id},
        )
    )


async def plans_to_go_on_with(tx: Tx, stalled: timedelta, limit: int) -> list[int]:
    """Left by a planner that died, or waiting for room that is there now; the urgent first."""
    rows = await fetch_all(
        tx,
        "select id from ing_plan p where (status_code in ('DRAFT', 'SLICING')"
        "  and updated_at < clock_timestamp() - %(stalled)s) or (status_code = %(partial)s"
        "  and (select count(*) from (select 1 from ing_task t"
        "   where t.provenance_code = p.provenance_code and t.endpoint_name = p.endpoint_name"
        "   and t.operation_code = p.operation_code and t.status_code = 'QUEUED' and t.leased_until is null"
        "   limit (p.expr_proto_snapshot #>> '{planning,queueLimit}')::int) waiting) * 10"
        "  <= (p.expr_proto_snapshot #>> '{planning,queueLimit}')::int * 9) order by priority, id limit %(limit)s",
        {
            "stalled": stalled,
            "partial": PlanStatus.PARTIAL,
            "limit": limit,
        },
    )
    return [row["id"] for row in rows]


async def waiting_plan(tx: Tx, partition: Partition, namespace: str) -> int | None:
    """A plan of this namespace that has something left to slice."""
    row = await fetch_one(
        tx,
        "select id from ing_plan where provenance_code = %s and endpoint_name = %s and operation_code = %s"
        " and namespace_key = %s and status_code = 'PARTIAL' order by id limit 1",
        (*partition, namespace),
    )
    return None if row is None else row["id"]


async def lock_namespace(tx: Tx, partition: Partition, namespace: str) -> None:
    """Until this transaction ends, nobody else queues anything of it."""
    name = " ".join(("harvest", *partition, namespace))
    await tx.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))


# --- partitions --------------------------------------------------------------------------------------------
async def upsert_partition(tx: Tx, spec: Spec) -> None:
    await tx.execute(
        "insert into ing_partition (provenance_code, endpoint_name, operation_code, c_max, source_max)"
        " values (%s, %s, %s, %s, coalesce(%s, 1000000)) on conflict (provenance_code, endpoint_name, operation_code)"
        " do update set c_max = excluded.c_max, source_max = excluded.source_max, updated_at = now()"
        " where (ing_partition.c_max, ing_partition.source_max) <> (excluded.c_max, excluded.source_max)",
        (*partition_of(spec), spec.planning.c_max, spec.rate_limit.concurrency),
    )


async def clock_behind(tx: Tx, partition: Partition) -> timedelta:
    """Of the source, as any operation saw it last."""
    row = await fetch_one(
        tx,
        "select max(clock_behind) as behind from ing_partition where provenance_code = %s and endpoint_name = %s",
        partition[:2],
    )
    return (row and row["behind"]) or timedelta(0)


@dataclass(frozen=True, slots=True)
class Inventory:
    """What waits and runs in a partition."""

    queued: int
    live: int


async def inventory(tx: Tx, partition: Partition, *, lock: bool = False) -> Inventory:
    if lock:
        await tx.execute(
            "select 1 from ing_partition where provenance_code = %s and endpoint_name = %s and operation_code = %s"
            " for update",
            partition,
        )
    row = await fetch_one(
        tx,
        "select count(*) filter (where status_code = 'QUEUED') as queued, count(*) as live from ing_task"
        " where provenance_code = %s and endpoint_name = %s and operation_code = %s"
        " and status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING')",
        partition,
    )
    return Inventory(**_there(row))


async def promised_requests(tx: Tx, provenance_code: str) -> int:
    """What the tasks that wait or run are expected to ask of the source."""
    row = await fetch_one(
        tx,
        "select coalesce(sum(coalesce((s.slice_spec #>> '{budget,maxRequests}')::bigint, 1)), 0)::bigint as promised"
        " from ing_task t join ing_plan_slice s on s.id = t.slice_id where t.provenance_code = %s"
        " and t.status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING')",
        (provenance_code,),
    )
    return int(_there(row)["promised"])


# --- windows -----------------------------------------------------------------------------------------------
async def live_windows(tx: Tx, partition: Partition, namespace: str) -> list[Span]:
    return _spans(
        await fetch_all(
            tx,
            "select lower(r) as start, upper(r) as end from (select unnest(range_agg(tstzrange(window_from,"
            " window_to))) as r from ing_task where provenance_code = %s and endpoint_name = %s and operation_code = %s"
            " and namespace_key = %s and status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING')"
            " and window_from is not null) live order by r",
            (*partition, namespace),
        )
    )


async def sliced_windows(tx: Tx, plan_id: int) -> list[Span]:
    """What this plan has cut already, whatever came of it."""
    return _spans(
        await fetch_all(
            tx,
            "select lower(r) as start, upper(r) as end from (select unnest(range_agg(tstzrange("
            " (slice_spec #>> '{bounds,time,from}')::timestamptz,"
            " (slice_spec #>> '{bounds,time,to}')::timestamptz))) as r"
            " from ing_plan_slice where plan_id = %s and slice_spec #> '{bounds,time}' is not null) cut order by r",
            (plan_id,),
        )
    )


async def rival_plan(tx: Tx, partition: Partition, namespace: str, plan_id: int) -> int | None:
    """Another plan that has tasks in this namespace right now."""
    row = await fetch_one(
        tx,
        "select plan_id from ing_task where provenance_code = %s and endpoint_name = %s and operation_code = %s"
        " and namespace_key = %s and status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING') and plan_id <> %s limit 1",
        (*partition, namespace, plan_id),
    )
    return None if row is None else row["plan_id"]


async def signatures(tx: Tx, plan_id: int) -> set[str]:
    rows = await fetch_all(tx, "select slice_signature_hash from ing_plan_slice where plan_id = %s", (plan_id,))
    return {row["slice_signature_hash"] for row in rows}


def _spans(rows: Sequence[Mapping[str, Any]]) -> list[Span]:
    return [Span(row["start"].astimezone(UTC), row["end"].astimezone(UTC)) for row in rows]


# --- slices and tasks --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class NewSlice:
    """A slice and its task, as columns."""

    slice_spec: Mapping[str, Any]
    expr_snapshot: Mapping[str, Any]
    signature: str
    expr_hash: str
    params: Mapping[str, Any]
    idempotent_key: str
    window: Span | None


@dataclass(frozen=True, slots=True)
class Owner:
    """The plan that slices and tasks belong to."""

    plan_id: int
    instance_id: int
    partition: Partition
    namespace: str
    priority: int
    credential: str | None


async def insert_slices(tx: Tx, owner: Owner, new: Sequence[NewSlice]) -> list[dict[str, Any]]:
    """One statement for all, numbered on from those the plan has; those that it has are left alone."""
    return await fetch_all(
        tx,
        "insert into ing_plan_slice (plan_id, provenance_code, slice_no, slice_spec, slice_signature_hash, expr_hash,"
        " expr_snapshot, status_code)"
        " select %(plan)s, %(source)s, n + (select coalesce(max(slice_no), 0) from ing_plan_slice where"
        "  plan_id = %(plan)s), spec::jsonb, signature, hash, snapshot::jsonb, %(status)s"
        " from unnest(%(specs)s::text[], %(signatures)s::text[], %(hashes)s::text[], %(snapshots)s::text[])"
        " with ordinality as given(spec, signature, hash, snapshot, n) order by n"
        " on conflict on constraint uk_slice_sig do nothing returning id, slice_no, slice_signature_hash",
        {
            "plan": owner.plan_id,
            "source": owner.partition[0],
            "status": SliceStatus.READY,
            "specs": [json.dumps(each.slice_spec) for each in new],
            "signatures": [each.signature for each in new],
            "hashes": [each.expr_hash for each in new],
            "snapshots": [json.dumps(each.expr_snapshot) for each in new],
        },
    )


async def set_parent(tx: Tx, slice_ids: Sequence[int], parent_id: int) -> None:
    await tx.execute("update ing_plan_slice set parent_slice_id = %s where id = any(%s)", (parent_id, list(slice_ids)))


async def insert_tasks(tx: Tx, owner: Owner, new: Sequence[tuple[int, NewSlice]]) -> list[dict[str, Any]]:
    """In order, so that ids follow the order in which they should be worked on."""
    return await fetch_all(
        tx,
        "insert into ing_task (schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name, operation_code,"
        " namespace_key, credential_id, params, expr_hash, idempotent_key, status_code, window_from, window_to,"
        " priority) select %(instance)s, %(plan)s, slice, %(source)s, %(endpoint)s, %(operation)s, %(namespace)s,"
        " %(credential)s, params::jsonb, hash, key, %(status)s, start, stop, %(priority)s"
        " from unnest(%(slices)s::bigint[], %(params)s::text[], %(hashes)s::text[], %(keys)s::text[],"
        "  %(starts)s::timestamptz[], %(stops)s::timestamptz[])"
        " with ordinality as given(slice, params, hash, key, start, stop, n) order by n"
        " on conflict on constraint uk_task_idem do nothing returning id, slice_id, window_from, window_to",
        {
            "instance": owner.instance_id, "plan": owner.plan_id, "source": owner.partition[0],
            "endpoint": owner.partition[1], "operation": owner.partition[2], "namespace": owner.namespace,
            "credential": owner.credential, "status": TaskStatus.QUEUED, "priority": owner.priority,
            "slices": [slice_id for slice_id, _ in new],
            "params": [json.dumps(each.params) for _, each in new],
            "hashes": [each.expr_hash for _, each in new],
            "keys": [each.idempotent_key for _, each in new],
            "starts": [each.window and each.window.start for _, each in new],
            "stops": [each.window and each.window.end for _, each in new],
        },
    )  # fmt: skip


# --- experience --------------------------------------------------------------------------------------------
async def items_per_second(tx: Tx, spec: Spec) -> float | None:
    """Of window, over the newest runs that finished theirs."""
    row = await fetch_one(
        tx,
        "with recent as (select distinct run_id from (select run_id, endpoint_name from ing_task_run_batch"
        "  where provenance_code = %s and operation_code = %s order by created_at desc limit 5000) newest"
        "  where endpoint_name = %s)"
        " select sum(coalesce((stats ->> 'retCount')::numeric, 0))::float as items,"
        " sum(extract(epoch from window_to - window_from))::float as seconds"
        " from ing_task_run where id in (select run_id from recent) and status_code = 'SUCCEEDED'"
        " and window_from is not null",
        (spec.provenance_code, spec.operation, spec.endpoint_name),
    )
    return None if row is None or not row["seconds"] else row["items"] / row["seconds"]


def _there(row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        raise LookupError("a row that must be there is not")
    return row


def as_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
