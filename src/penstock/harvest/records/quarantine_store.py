"""The SQL of the quarantine."""

from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from penstock.harvest.records.counting import Place
from penstock.kernel.db import Tx, fetch_all

Row = tuple[str | None, str, str, str, int]  # id, reason code, reason, sample, number of the item

_INSERT = """
insert into ing_quarantine (provenance_code, endpoint_name, operation_code, provider_id, reason_code, reason, sample,
  request, run_id, batch_no, item_no)
select %s, %s, %s, given.id, given.code, given.reason, given.sample, %s, %s, %s, given.item_no
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::int[]) as given (id, code, reason, sample, item_no)
on conflict (run_id, batch_no, item_no) do nothing
"""
# In the order of their keys: two pages that release the same rows wait for each other, never in a circle.
_RELEASE = """
with chosen as (select id from ing_quarantine where provenance_code = %(source)s and endpoint_name = %(endpoint)s
  and provider_id = any(%(seen)s) and released_at is null
  and (reason_code = 'NO_DETAIL' or provider_id = any(%(written)s)) order by id for update)
update ing_quarantine q set released_at = now() from chosen where q.id = chosen.id
"""
_NEWEST = """
select id, provenance_code, endpoint_name, operation_code, provider_id, reason_code, reason, sample, request, run_id,
  batch_no, item_no, created_at, released_at
from ing_quarantine where provenance_code = %(source)s and (released_at is null or not %(is_open)s)
  and (%(before)s::bigint is null or id < %(before)s)
order by id desc limit %(limit)s
"""


async def insert(tx: Tx, place: Place, rows: Sequence[Row], request: dict[str, Any]) -> None:
    where = (place.provenance_code, place.endpoint_name, str(place.operation))
    columns = [list(column) for column in zip(*rows, strict=True)]
    await tx.execute(_INSERT, (*where, Jsonb(request), place.run_id, place.batch_no, *columns))


async def release(tx: Tx, place: Place, seen: Sequence[str], written: Sequence[str]) -> None:
    """What was written has become a record; what was seen has details again, even if they are the ones we know."""
    values = {"source": place.provenance_code, "endpoint": place.endpoint_name}
    await tx.execute(_RELEASE, {**values, "seen": list(seen), "written": list(written)})


async def newest(tx: Tx, source: str, *, is_open: bool, limit: int, before: int | None) -> list[dict[str, Any]]:
    return await fetch_all(tx, _NEWEST, {"source": source, "is_open": is_open, "limit": limit, "before": before})
