"""A queue of harvest tasks without a planner: plans and slices only as far as claiming needs them."""

from datetime import timedelta
from typing import Any

from penstock.harvest.executing.claim import Claimer
from penstock.kernel.db import Database, fetch_all


async def queue_tasks(database: Database, source: str, count: int, *, operation: str = "HARVEST", **facts: Any) -> None:
    """`facts`: priority, c_max, source_max, later (seconds until they may be claimed)."""
    async with database.transaction() as tx:
        await tx.execute(
            "insert into ing_partition (provenance_code, endpoint_name, operation_code, c_max, source_max)"
            " values (%s, 'works', %s, %s, %s) on conflict do nothing",
            (source, operation, facts.get("c_max", 4), facts.get("source_max", 1_000_000)),
        )
        await tx.execute(
            "insert into ing_task (schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name,"
            " operation_code, expr_hash, idempotent_key, status_code, priority, scheduled_at)"
            " select 1, 1, n, %(source)s, 'works', %(operation)s, 'x', %(source)s || %(operation)s || n, 'QUEUED',"
            " %(priority)s, now() - interval '1 hour' + %(later)s from generate_series(1, %(count)s) n",
            {
                "source": source, "operation": operation, "count": count, "priority": facts.get("priority", 100),
                "later": timedelta(seconds=facts.get("later", 0)),
            },
        )  # fmt: skip


def claimer(database: Database, owner: str = "one", *, total: int = 100, ttl: float = 60) -> Claimer:
    return Claimer(database, owner, total, timedelta(seconds=ttl))


async def states(database: Database) -> dict[str, int]:
    async with database.transaction() as tx:
        rows = await fetch_all(tx, "select status_code, count(*) as n from ing_task group by 1")
    return {row["status_code"]: row["n"] for row in rows}
