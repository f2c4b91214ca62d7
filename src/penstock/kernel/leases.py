"""Leases: many processes share the rows of a table; each row is held by one, for a while, with a fence.

A leasable table has four columns: `lease_owner`, `leased_until`, `lease_token`, `lease_count`. `lease_token` grows
with every claim, so it orders the holders of a row. Whoever wants to write as the holder says which token
it got (`settle`, or `assert_held` in the same transaction as its write): a holder that was paused beyond
its time, and whose row was claimed again, finds a greater token and cannot write.

Free rows have `leased_until is null`, which lets a partial index hold exactly the rows that can be claimed,
in the order they should be. Time-outs are `expire`'s duty: it frees what nobody renewed. So a claim never
looks at held rows, however many there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from psycopg import sql

from penstock.kernel import error_codes
from penstock.kernel.db import NOW, Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Leasable:
    """How to find claimable rows. `ready` and `order` are SQL over the table's columns, written in code."""

    table: str
    key: str
    ready: str  # the predicate of the partial index, without `leased_until is null`
    order: str


@dataclass(frozen=True, slots=True)
class Lease:
    """One held row."""

    key: Any
    token: int
    row: Mapping[str, Any]


async def claim(tx: Tx, what: Leasable, *, owner: str, ttl: timedelta, limit: int = 1) -> list[Lease]:
    """Take up to `limit` free rows, in order; rows that others are just taking are passed over."""
    query = sql.SQL(
        "update {table} set lease_owner = %(owner)s, leased_until = clock_timestamp() + %(ttl)s,"
        " lease_token = lease_token + 1, lease_count = lease_count + 1"
        " where {key} = any(array(select {key} from {table} where leased_until is null and ({ready})"
        " order by {order} limit %(limit)s for update skip locked)) returning *"
    )
    rows = await fetch_all(tx, _over(what, query), {"owner": owner, "ttl": ttl, "limit": limit})
    return [Lease(row[what.key], row["lease_token"], row) for row in rows]


def claimed(row: Mapping[str, Any], *, owner: str, until: datetime) -> dict[str, Any]:
    """What a claim changes, for who has locked a free row and changes more of it than this."""
    return {
        "lease_owner": owner,
        "leased_until": until,
        "lease_token": row["lease_token"] + 1,
        "lease_count": row["lease_count"] + 1,
    }


async def renew(tx: Tx, what: Leasable, leases: Sequence[Lease], *, ttl: timedelta) -> list[Any]:
    """Hold on for longer; returns the keys that are still ours. The others are lost."""
    query = sql.SQL(
        "update {table} t set leased_until = clock_timestamp() + %(ttl)s, lease_count = lease_count + 1"
        " from unnest(%(keys)s::text[], %(tokens)s::bigint[]) held(key, token)"
        " where t.{key}::text = held.key and t.{key} = any(%(raw)s) and t.lease_token = held.token"
        " and t.leased_until is not null returning t.{key}"
    )
    rows = await fetch_all(tx, _over(what, query), {"ttl": ttl, **_held(leases)})
    return [row[what.key] for row in rows]


async def give_back(tx: Tx, what: Leasable, leases: Sequence[Lease]) -> None:
    """Free rows that were not worked on, so that others need not wait for the time-out."""
    query = sql.SQL(
        "update {table} t set lease_owner = null, leased_until = null"
        " from unnest(%(keys)s::text[], %(tokens)s::bigint[]) held(key, token)"
        " where t.{key}::text = held.key and t.{key} = any(%(raw)s) and t.lease_token = held.token"
    )
    await tx.execute(_over(what, query), _held(leases))


async def settle(tx: Tx, what: Leasable, lease: Lease, changes: Mapping[str, Any]) -> None:
    """Write the outcome and let go; raises LEASE_LOST if somebody else holds the row by now."""
    query = _settling(what, tuple((name, value is NOW) for name, value in changes.items()))
    given = {f"set_{name}": value for name, value in changes.items() if value is not NOW}
    if await fetch_one(tx, query, {"lease_key": lease.key, "lease_token": lease.token, **given}) is None:
        raise PenstockError(error_codes.LEASE_LOST, table=what.table, key=str(lease.key))


@lru_cache(maxsize=64)
def _settling(what: Leasable, changes: tuple[tuple[str, bool], ...]) -> str:
    sets = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(
            sql.Identifier(name), sql.SQL("statement_timestamp()") if is_now else sql.Placeholder(f"set_{name}")
        )
        for name, is_now in changes
    )
    query = sql.SQL(
        "update {table} set lease_owner = null, leased_until = null, {sets}"
        " where {key} = %(lease_key)s and lease_token = %(lease_token)s and leased_until is not null returning 1"
    )
    return _over(what, query, sets=sets).as_string(None)


async def assert_held(tx: Tx, what: Leasable, lease: Lease) -> None:
    """Fence for a transaction that writes elsewhere: locks the lease row until commit, or raises LEASE_LOST."""
    query = sql.SQL(
        "select 1 from {table} where {key} = %(key)s and lease_token = %(token)s"
        " and leased_until > clock_timestamp() for update"
    )
    if await fetch_one(tx, _over(what, query), {"key": lease.key, "token": lease.token}) is None:
        raise PenstockError(error_codes.LEASE_LOST, table=what.table, key=str(lease.key))


async def expire(tx: Tx, what: Leasable, *, limit: int = 1000) -> int:
    """Free rows whose holder has not renewed in time; returns how many."""
    query = sql.SQL(
        "update {table} set lease_owner = null, leased_until = null"
        " where {key} = any(array(select {key} from {table} where leased_until < clock_timestamp()"
        " order by leased_until limit %(limit)s for update skip locked)) returning 1"
    )
    return len(await fetch_all(tx, _over(what, query), {"limit": limit}))


def _over(what: Leasable, query: sql.SQL, **more: sql.Composable) -> sql.Composed:
    return query.format(
        table=sql.Identifier(*what.table.split(".")),
        key=sql.Identifier(what.key),
        ready=sql.SQL(what.ready),  # written in code, never from input
        order=sql.SQL(what.order),
        **more,
    )


def _held(leases: Sequence[Lease]) -> dict[str, Any]:
    return {
        "keys": [str(lease.key) for lease in leases],
        "raw": [lease.key for lease in leases],
        "tokens": [lease.token for lease in leases],
    }
