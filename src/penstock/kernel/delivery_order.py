"""Which deliveries may be claimed: per receiver and order key only the oldest open one, its head; merchants in turn.

Every merchant has a lane of its own in the index of waiting rows. A claim lists the lanes by hopping through that
index, then looks in each lane through a window of the rows that are longest due until it has as many heads as the
merchant may have. So a backlog of one merchant costs the others nothing, and a claim costs the same with ten rows as
with a million. Each head is found by one probe of an index; the sub-select with its `limit` keeps the planner from
making a join of it, which without fresh statistics compares every row with every other. That the row itself is open is
said again in words that no partial index answers to, so that the rows are fetched by their keys.

Rows that wait behind a head, or for an endpoint that is paused (`endpoint_breaker.py`), could fill the window and hide
other heads of the lane. So a claim that finds too few sets them aside (`set_aside`): they are due again with their head
or their endpoint, or soon if the head is being worked on; only the row right behind such a head stays, because it may
be the head a moment later. Whoever settles a head makes the next row due at once (`release_next`). Both only choose
when a row is looked at; that it is never claimed before an older one is the claim's own condition, so a lost race here
costs seconds, never order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.kernel.db import Tx, fetch_all
from penstock.kernel.leases import Leasable, Lease

DELIVERIES = Leasable(
    "outbox_deliveries", "delivery_id", ready="done_at is null and dead_at is null", order="due_at, delivery_id"
)
MOST_LANES = 1000  # listed by one claim; the next one goes on from there

_WINDOW = 250  # rows of a lane that a claim looks through
_CROWDED = 50  # from so many on, those that cannot be claimed are set aside
_OPEN = "{0}.done_at is null and {0}.dead_at is null"
_FREE = f"{_OPEN.format('w')} and w.leased_until is null"
_WAITING = f"{_FREE} and w.due_at <= now()"
_PAUSED = "exists (select from endpoint_breakers b where b.sink = {0}.sink and b.paused_until > now())"


def _head(columns: str, sink: str, order_key: str) -> str:
    return (
        f"select {columns} from outbox_deliveries h where h.sink = {sink} and h.order_key = {order_key}"  # noqa: S608
        f" and {_OPEN.format('h')} order by h.event_id limit 1"
    )


def _window(merchant: str, size: int = _WINDOW) -> str:
    return (
        "select w.delivery_id, w.sink, w.order_key, w.event_id from outbox_deliveries w"  # noqa: S608  of constants
        f" where w.outside = %(outside)s and w.merchant_id = {merchant} and {_WAITING}"
        f" order by w.due_at, w.delivery_id limit {size}"
    )


_HOP = (
    "select w.merchant_id from outbox_deliveries w where w.outside = %(outside)s"  # noqa: S608  of constants
    f" and {_FREE} and w.merchant_id {{0}} order by w.merchant_id limit 1"
)
_LANES = f"""
with recursive lane (merchant_id, number) as (
  (select found.merchant_id, 1 from ({_HOP.format(">= %(first)s")}) found)
  union all
  select ({_HOP.format("> lane.merchant_id")}), lane.number + 1 from lane
   where lane.merchant_id is not null and lane.number < {MOST_LANES})
select merchant_id, (select count(*) from ({_window("lane.merchant_id", _CROWDED)}) counted) as due
  from lane where merchant_id is not null
"""  # noqa: S608  composed of constants
_CANDIDATES = f"""
select d.delivery_id, d.merchant_id, d.sink, coalesce(b.failures, 0) as failures
  from outbox_deliveries d left join endpoint_breakers b on b.sink = d.sink
 where d.delivery_id = any(array(
     select head.delivery_id from unnest(%(merchants)s::text[], %(rooms)s::int[]) lane (merchant_id, room)
      cross join lateral (
        select w.delivery_id from ({_window("lane.merchant_id")}) w
         where w.sink <> all(%(full)s) and not {_PAUSED.format("w")}
           and w.event_id = ({_head("h.event_id", "w.sink", "w.order_key")})
         limit lane.room) head))
   and d.leased_until is null and coalesce(d.done_at, d.dead_at) is null and d.due_at <= now()
   and d.event_id = ({_head("h.event_id", "d.sink", "d.order_key")})
 order by d.due_at, d.delivery_id for update of d skip locked
"""  # noqa: S608  composed of constants
_LEASE = """
update outbox_deliveries set lease_owner = %(owner)s, leased_until = clock_timestamp() + %(ttl)s,
    lease_token = lease_token + 1, lease_count = lease_count + 1
 where delivery_id = any(%(ids)s) returning *
"""
_SET_ASIDE = f"""
with filled as materialized (
  select found.* from unnest(%(merchants)s::text[]) lane (merchant_id)
   cross join lateral (
     select w.delivery_id, w.sink, w.order_key, w.event_id from outbox_deliveries w
      where w.outside = %(outside)s and w.merchant_id = lane.merchant_id and {_WAITING}
      order by w.due_at, w.delivery_id limit {_WINDOW} for update skip locked) found),
behind as (
  select f.delivery_id, head.due_at from filled f
   cross join lateral ({_head("h.due_at, h.event_id, h.leased_until", "f.sink", "f.order_key")}) head
   where head.event_id < f.event_id
     and (head.due_at > now() and head.leased_until is null
          or f.event_id > ({_head("h.event_id", "f.sink", "f.order_key")} offset 1))
  union all
  select f.delivery_id, b.paused_until from filled f join endpoint_breakers b on b.sink = f.sink
   where b.paused_until > now())
update outbox_deliveries d set due_at = greatest(later.due_at, now() + interval '15 seconds')
  from (select delivery_id, max(due_at) as due_at from behind group by delivery_id) later
 where d.delivery_id = later.delivery_id returning 1
"""  # noqa: S608  composed of constants
_RELEASE_NEXT = f"""
update outbox_deliveries set due_at = now()
 where delivery_id = ({_head("h.delivery_id", "%(sink)s", "%(order_key)s")})
   and due_at > now() and attempts = 0 and leased_until is null
"""  # noqa: S608  composed of constants


@dataclass(frozen=True, slots=True)
class Lane:
    """A merchant's waiting rows. Crowded: so many are due that those which cannot be claimed are in the way."""

    merchant_id: str
    is_due: bool
    is_crowded: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that this transaction has locked and may lease. `failures` of its endpoint came in a row."""

    delivery_id: int
    merchant_id: str
    sink: str
    failures: int


async def lanes(tx: Tx, *, outside: bool, first: str) -> list[Lane]:
    """Merchants with free rows, from `first` on in the order of their ids."""
    found = await fetch_all(tx, _LANES, {"outside": outside, "first": first})
    return [Lane(row["merchant_id"], row["due"] > 0, row["due"] == _CROWDED) for row in found]


async def lock_candidates(tx: Tx, rooms: Mapping[str, int], *, outside: bool, full: Sequence[str]) -> list[Candidate]:
    """Heads that are due, so many of each merchant, the longest due first; none of the `full` receivers."""
    wanted = {"outside": outside, "merchants": list(rooms), "rooms": list(rooms.values()), "full": list(full)}
    return [Candidate(**row) for row in await fetch_all(tx, _CANDIDATES, wanted)]


async def lease(tx: Tx, ids: Sequence[int], *, owner: str, ttl: timedelta) -> list[dict[str, Any]]:
    """Lease rows that this transaction has locked; returns them as they are then."""
    return await fetch_all(tx, _LEASE, {"ids": list(ids), "owner": owner, "ttl": ttl})


async def set_aside(tx: Tx, merchants: Sequence[str], *, outside: bool) -> int:
    """Move rows of these merchants that are due and cannot be claimed out of the way; returns how many."""
    return len(await fetch_all(tx, _SET_ASIDE, {"outside": outside, "merchants": list(merchants)}))


async def release_next(tx: Tx, settled: Lease) -> None:
    """The row after one that was just settled is due now, if it was set aside."""
    await tx.execute(_RELEASE_NEXT, {"sink": settled.row["sink"], "order_key": settled.row["order_key"]})
