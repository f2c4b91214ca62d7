"""The SQL of schedules."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.kernel.db import Tx, fetch_all


async def due(tx: Tx, now: datetime, limit: int) -> list[dict[str, Any]]:
    return await fetch_all(
        tx,
        "select provenance_code, endpoint_name, operation_code, cron, every, params, next_run_at from reg_schedule"
        " where is_active and next_run_at <= %s order by next_run_at limit %s",
        (now, limit),
    )


async def settle(tx: Tx, schedule: Mapping[str, Any], following: datetime, now: datetime, error: str | None) -> None:
    """Only if nobody has changed the schedule meanwhile."""
    await tx.execute(
        "update reg_schedule set next_run_at = %(following)s, last_run_at = %(now)s, last_error = %(error)s"
        " where provenance_code = %(provenance_code)s and endpoint_name = %(endpoint_name)s"
        " and operation_code = %(operation_code)s and next_run_at = %(next_run_at)s",
        {**schedule, "following": following, "now": now, "error": error, "params": None},
    )
