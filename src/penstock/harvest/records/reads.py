"""Looking at stored records: a stretch in the order of their ids, a count, one with its body. Read only."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from penstock.harvest.records.where import Where
from penstock.kernel import error_codes
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

_FACTS = sql.SQL(
    "r.provider_id, r.updated_at, r.version, r.is_deleted, r.fields, r.revision, r.expr_hash,"
    " r.batch_run_id, r.batch_no, r.first_seen_at, r.changed_at, r.checked_at"
)
_PLACE = sql.SQL("r.provenance_code = %(source)s and r.endpoint_name = %(endpoint)s and {}")
_ROWS_AT_ONCE = 500

# Names with records are found by jumping from one to the next in the key's index, not by reading the table.
_ENDPOINTS = """
with recursive stored (name) as (
  (select endpoint_name from ing_record where provenance_code = %(source)s order by endpoint_name limit 1)
  union all
  select (select r.endpoint_name from ing_record r where r.provenance_code = %(source)s
    and r.endpoint_name > stored.name order by r.endpoint_name limit 1) from stored where stored.name is not null)
select coalesce(s.name, d.endpoint_name) as name, s.name is not null as has_records,
  coalesce(d.is_default, false) as is_default
from (select name from stored where name is not null) s
full join (select endpoint_name, is_default from reg_prov_endpoint_def where provenance_code = %(source)s) d
  on d.endpoint_name = s.name
order by 1
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are meant."""

    source: str
    endpoint: str
    where: Where = field(default_factory=Where)


async def endpoint_of(tx: Tx, source: str, endpoint: str | None) -> str:
    """The endpoint that is meant: the one named, else the source's default, else the only one with records."""
    found = await fetch_all(tx, _ENDPOINTS, {"source": source})
    names = [row["name"] for row in found]
    if not names:
        raise PenstockError(error_codes.SOURCE_UNKNOWN, source=source)
    if endpoint is not None and endpoint in names:
        return endpoint
    candidates = [row["name"] for row in found if row["is_default"]] or [
        row["name"] for row in found if row["has_records"]
    ]
    if endpoint is not None or len(candidates) != 1:
        raise PenstockError(error_codes.ENDPOINT_UNKNOWN, source=source, endpoint=endpoint, endpoints=names)
    return str(candidates[0])


async def select_records(tx: Tx, chosen: Selection, *, limit: int, after: str | None = None) -> list[dict[str, Any]]:
    """Without their bodies, in the order of their ids; `after` is the id of the last one seen."""
    query = sql.SQL(
        "select {} from ing_record r where {} and (%(after)s::text is null or r.provider_id > %(after)s)"
        " order by r.provider_id limit %(limit)s"
    ).format(_FACTS, _PLACE.format(chosen.where.condition))
    return await fetch_all(tx, query, {**_values(chosen), "limit": limit, "after": after})


async def count_records(tx: Tx, chosen: Selection) -> int:
    query = sql.SQL("select count(*) as n from ing_record r where {}").format(_PLACE.format(chosen.where.condition))
    row = await fetch_one(tx, query, _values(chosen))
    return int(row["n"]) if row else 0


async def read_record(tx: Tx, chosen: Selection, provider_id: str) -> dict[str, Any] | None:
    """One, with its body."""
    query = sql.SQL("select {}, r.body from ing_record r where {} and r.provider_id = %(id)s").format(
        _FACTS, _PLACE.format(chosen.where.condition)
    )
    return await fetch_one(tx, query, {**_values(chosen), "id": provider_id})


async def field_names(tx: Tx, chosen: Selection) -> list[str]:
    """Every mapped field that one of these records has."""
    query = sql.SQL(
        "select distinct key from ing_record r, jsonb_object_keys(r.fields) as key"
        " where jsonb_typeof(r.fields) = 'object' and {} order by key"
    ).format(_PLACE.format(chosen.where.condition))
    return [row["key"] for row in await fetch_all(tx, query, _values(chosen))]


async def stream_records(tx: Tx, chosen: Selection) -> AsyncIterator[list[dict[str, Any]]]:
    """All of them with their bodies, a few hundred at a time, whatever their number."""
    query = sql.SQL("select {}, r.body from ing_record r where {} order by r.provider_id").format(
        _FACTS, _PLACE.format(chosen.where.condition)
    )
    async with tx.cursor(name="records_export") as cursor:
        await cursor.execute(query, _values(chosen))
        while rows := await cursor.fetchmany(_ROWS_AT_ONCE):
            yield rows


def _values(chosen: Selection) -> dict[str, Any]:
    return {"source": chosen.source, "endpoint": chosen.endpoint, **chosen.where.values}
