"""All SQL of ETL tasks. Statuses are written by the state machine alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from psycopg import sql

from penstock.extraction.states import Stage
from penstock.kernel.db import Tx, fetch_all, fetch_one

_DUE = "status = 'pending' and leased_until is null and due_at <= clock_timestamp()"
# What a run state is made of: results and rules may be large, and the sweep looks at hundreds of rows each time.
_SHOWN = (
    "task_id, merchant_id, filename, rule_id, rule_version, status, phase, generation, lease_token, progress,"
    " ocr_attempts, postprocess_attempts, started_at, created_at, error, metadata"
)
_SMALL_RESULT = (
    "case when pg_column_size(result) > 32768 then (result - 'data' - 'provenance') || '{\"is_large\": true}'"
    " else result end as result"
)
_CLAIM = f"""
update etl_task set lease_owner = %(owner)s, leased_until = clock_timestamp() + %(ttl)s, lease_token = lease_token + 1,
    lease_count = lease_count + 1, started_at = coalesce(started_at, clock_timestamp()), updated_at = clock_timestamp()
  where task_id = %(id)s and phase = %(phase)s and {_DUE}
returning *
"""  # noqa: S608  written in code
_IF_PLACED = sql.SQL(
    "case when etl_kept_out_by(%(new_merchant_id)s, %(places)s, %(own_places)s) is null"
    " then %(new_task_id)s::bigint end"
)
_HOP = (
    "select t.merchant_id from etl_task t where t.queue = %(queue)s and t.status = 'pending'"
    " and t.leased_until is null {0} order by t.merchant_id limit 1"
)
_FIRST_OF_EACH = f"""
with recursive lane (merchant_id) as (
  ({_HOP.format("")})
  union all
  select ({_HOP.format("and t.merchant_id > lane.merchant_id")}) from lane where lane.merchant_id is not null)
select task.* from lane cross join lateral (
  select task_id, merchant_id, phase from etl_task
   where queue = %(queue)s and merchant_id = lane.merchant_id and {_DUE}
   order by phase desc, due_at, task_id limit 1) task
union all
select task_id, merchant_id, phase from etl_task where task_id = %(named)s and queue <> %(queue)s and {_DUE}
"""  # noqa: S608  written in code
_UNREAD = (
    "c.kept_since < clock_timestamp() - make_interval(days => %(days)s) and not exists (select 1 from etl_task t"
    " where t.source_key = c.source_key and t.merchant_id = c.merchant_id)"
)
_EXPIRE = """
update etl_task set lease_owner = null, leased_until = null, lost_workers = lost_workers + 1
  where task_id = any(array(select task_id from etl_task where leased_until < clock_timestamp()
    order by leased_until limit %s for update skip locked))
returning *
"""


@dataclass(frozen=True, slots=True)
class DueTask:
    """A task that a worker may claim."""

    task_id: int
    merchant_id: str
    stage: Stage


async def reserve_id(tx: Tx, most: int) -> int | None:
    """The number of the next task; None when `most` are unfinished, which is as far as they are counted."""
    query = (
        "select nextval(pg_get_serial_sequence('etl_task', 'task_id')) as task_id"
        " from (select count(*) as n from (select 1 from etl_task where status = 'pending' limit %(most)s) found) open"
        " where n < %(most)s"
    )
    row = await fetch_one(tx, query, {"most": most})
    return None if row is None else int(row["task_id"])


def task_insert(columns: Mapping[str, Any], places: int, own_places: int) -> tuple[str, Mapping[str, Any]]:
    """A task with a reserved number, for the state machine to complete. Who finds no place in the queue has no number
    either: `NotNullViolation`."""
    values = {f"new_{name}": value for name, value in columns.items()}
    return _task_insert(tuple(columns)), values | {"places": places, "own_places": own_places}


@lru_cache(maxsize=4)
def _task_insert(names: tuple[str, ...]) -> str:
    return (
        sql.SQL("insert into etl_task ({}) overriding system value values ({}) returning *")
        .format(
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join(_IF_PLACED if name == "task_id" else sql.Placeholder(f"new_{name}") for name in names),
        )
        .as_string(None)
    )


async def insert_task(tx: Tx, query: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    row = await fetch_one(tx, *query)
    assert row is not None  # noqa: S101  an insert returns its row or raises
    return row


async def find(tx: Tx, task_id: int) -> dict[str, Any] | None:
    return await fetch_one(tx, "select * from etl_task where task_id = %s", (task_id,))


async def lock(tx: Tx, task_id: int) -> dict[str, Any] | None:
    """With the time, as `now`, by the database's clock."""
    query = "select *, clock_timestamp() as now from etl_task where task_id = %s for update"
    return await fetch_one(tx, query, (task_id,))


async def by_key(tx: Tx, merchant_id: str, key: str) -> dict[str, Any] | None:
    query = "select * from etl_task where merchant_id = %s and idempotency_key = %s"
    return await fetch_one(tx, query, (merchant_id, key))


async def kept_out_by(tx: Tx, merchant_id: str, places: int, own_places: int) -> str | None:
    """`queue`, `share` or nothing. The door is held until the transaction ends."""
    row = await fetch_one(tx, "select etl_kept_out_by(%s, %s, %s) as by", (merchant_id, places, own_places))
    return None if row is None else row["by"]


async def page(
    tx: Tx, merchant_id: str | None, statuses: Sequence[str] | None, before: int | None, limit: int
) -> list[dict[str, Any]]:
    """Newest first; `before` is the last task of the page before. Of a large result only the pointers."""
    query = (
        f"select {_SHOWN}, updated_at, finished_at, {_SMALL_RESULT} from etl_task"  # noqa: S608  as above
        " where (%(merchant)s::text is null or merchant_id = %(merchant)s)"
        " and (%(statuses)s::text[] is null or status = any(%(statuses)s))"
        " and (%(before)s::bigint is null or (created_at, task_id) <"
        " (select created_at, task_id from etl_task where task_id = %(before)s))"
        " order by created_at desc, task_id desc limit %(limit)s"
    )
    wanted = {"merchant": merchant_id, "statuses": statuses and list(statuses), "before": before, "limit": limit}
    return await fetch_all(tx, query, wanted)


# Working on one --------------------------------------------------------------------------------------------------
async def claim(tx: Tx, task_id: int, stage: Stage, *, owner: str, ttl: timedelta) -> dict[str, Any] | None:
    """The row, held; None when it is not due, is held, has ended or is in another stage."""
    return await fetch_one(tx, _CLAIM, {"id": task_id, "phase": stage, "owner": owner, "ttl": ttl})


async def first_of_each(tx: Tx, queue: str, named: int) -> list[DueTask]:
    """The first due task of each merchant: what is begun before what is not, then the longest due. And the named one,
    if it is of another queue: whoever sweeps wakes for all of them."""
    rows = await fetch_all(tx, _FIRST_OF_EACH, {"queue": queue, "named": named})
    return [DueTask(row["task_id"], row["merchant_id"], Stage(row["phase"])) for row in rows]


# The sweep -------------------------------------------------------------------------------------------------------
async def expire(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Free tasks whose worker has not been heard of in time; each is a worker lost."""
    return await fetch_all(tx, _EXPIRE, (limit,))


async def due(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """The first of each merchant, then the second of each, and so on."""
    query = (
        f"select {_SHOWN} from etl_task where {_DUE}"  # noqa: S608  as above
        " order by row_number() over (partition by merchant_id order by due_at, task_id), due_at, task_id limit %s"
    )
    return await fetch_all(tx, query, (limit,))


async def just_ended(tx: Tx, within: timedelta, limit: int) -> list[dict[str, Any]]:
    """Without their results, which may be large."""
    query = (
        f"select {_SHOWN} from etl_task where status <> 'pending' and cleared_at is null"  # noqa: S608  as above
        " and finished_at > clock_timestamp() - %s::interval order by finished_at desc limit %s"
    )
    return await fetch_all(tx, query, (within, limit))


# Retention -------------------------------------------------------------------------------------------------------
async def to_clear(tx: Tx, days: int, limit: int) -> list[dict[str, Any]]:
    """Tasks that ended so long ago that their artefacts are to go."""
    query = (
        "select task_id, generation from etl_task where finished_at < clock_timestamp() - make_interval(days => %s)"
        " and cleared_at is null order by finished_at limit %s"
    )
    return await fetch_all(tx, query, (days, limit))


async def mark_cleared(tx: Tx, task_id: int, generation: int) -> None:
    """Unless it was begun anew meanwhile."""
    query = (
        "update etl_task set cleared_at = clock_timestamp()"
        " where task_id = %s and generation = %s and finished_at is not null"
    )
    await tx.execute(query, (task_id, generation))


async def forget(tx: Tx, days: int, limit: int) -> int:
    """Rows of tasks that ended so long ago, and whose artefacts are gone."""
    query = (
        "delete from etl_task where task_id = any(array(select task_id from etl_task where cleared_at is not null"
        " and finished_at < clock_timestamp() - make_interval(days => %s) order by finished_at limit %s"
        " for update skip locked)) and cleared_at is not null"
    )
    return (await tx.execute(query, (days, limit))).rowcount


# Documents -------------------------------------------------------------------------------------------------------
async def keep_content(tx: Tx, merchant_id: str, key: str, size: int, quota: int) -> bool:
    """Count a document among those that are kept for a merchant; False where the quota does not allow it."""
    row = await fetch_one(tx, "select etl_keep(%s, %s, %s, %s) as is_kept", (merchant_id, key, size, quota))
    return row is not None and bool(row["is_kept"])


async def unread_content(tx: Tx, days: int, after: tuple[str, str], limit: int) -> list[tuple[str, str]]:
    """Merchants and keys, in order, of documents that may go."""
    rows = await fetch_all(tx, f"select merchant_id, source_key from etl_content c where {_UNREAD}"  # noqa: S608  a constant
        " and (merchant_id, source_key) > (%(merchant)s, %(key)s) order by merchant_id, source_key limit %(limit)s",
        {"days": days, "merchant": after[0], "key": after[1], "limit": limit},
    )  # fmt: skip
    return [(row["merchant_id"], row["source_key"]) for row in rows]


async def release_content(tx: Tx, merchant_id: str, key: str, days: int) -> bool:
    """Count it no longer, if that is still right; True when nobody else has it either. The key is locked."""
    wanted = {"days": days, "merchant": merchant_id, "key": key}
    await tx.execute("select pg_advisory_xact_lock(hashtextextended('etl content ' || %(key)s, 0))", wanted)
    gone = await fetch_one(tx, f"delete from etl_content c where {_UNREAD}"  # noqa: S608  a constant
        " and merchant_id = %(merchant)s and source_key = %(key)s returning 1", wanted)  # fmt: skip
    if gone is None:
        return False
    query = (
        "select exists (select 1 from etl_content where source_key = %(key)s)"
        " or exists (select 1 from etl_task where source_key = %(key)s) as is_read"
    )
    row = await fetch_one(tx, query, wanted)
    return row is not None and not row["is_read"]
