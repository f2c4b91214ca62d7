"""Which deliveries may be claimed: per receiver and order key only the oldest open one, its head.

A claim looks through a window of the rows that are longest due until it has enough heads (four times what it wants,
because others claim too), so it costs the same with ten rows as with a million. Each head is found by one probe of an
index; the sub-select with its `limit` keeps the planner from making a join of it, which without fresh statistics
compares every row with every other. That the row itself is open is said again in words that no partial index answers
to, so that the rows are fetched by their keys.

Rows that wait behind a head could fill the window and hide the heads of others. So a claim that finds it full
sets them aside (`set_aside`): they are due again with their head, or soon if that is being worked on. Whoever
settles a head makes the next row due at once (`release_next`). Both only choose when a row is looked at; that it is
never claimed before an older one is the claim's own condition, so a lost race here costs seconds, never order.
"""

from penstock.kernel.db import Tx, fetch_all
from penstock.kernel.leases import Leasable, Lease

_WINDOW = 500
_OPEN = "{0}.done_at is null and {0}.dead_at is null"
_WAITING = f"{_OPEN.format('w')} and w.leased_until is null and w.due_at <= now()"


def _head(columns: str, sink: str, order_key: str) -> str:
    return (
        f"select {columns} from outbox_deliveries h where h.sink = {sink} and h.order_key = {order_key}"  # noqa: S608
        f" and {_OPEN.format('h')} order by h.event_id limit 1"
    )


def _claimable(side: str) -> Leasable:
    window = (
        f"select * from outbox_deliveries w where {side} and {_WAITING}"  # noqa: S608  of constants
        f" order by w.due_at, w.delivery_id limit {_WINDOW}"
    )
    heads = (
        f"select w.delivery_id from ({window}) w"  # noqa: S608  of constants
        f" where w.event_id = ({_head('h.event_id', 'w.sink', 'w.order_key')}) limit 4 * %(limit)s"
    )
    ready = (
        f"delivery_id = any(array({heads})) and coalesce(done_at, dead_at) is null and due_at <= now()"
        f" and event_id = ({_head('h.event_id', 'outbox_deliveries.sink', 'outbox_deliveries.order_key')})"
    )
    return Leasable("outbox_deliveries", "delivery_id", ready=ready, order="due_at, delivery_id")


INSIDE = _claimable("not w.outside")
OUTSIDE = _claimable("w.outside")

_SET_ASIDE = f"""
with filled as materialized (
  select w.delivery_id, w.sink, w.order_key, w.event_id from outbox_deliveries w
   where w.outside = %(outside)s and {_WAITING}
     and (select count(*) = {_WINDOW} from (select from outbox_deliveries w where w.outside = %(outside)s
           and {_WAITING} order by w.due_at, w.delivery_id limit {_WINDOW}) looked_at)
   order by w.due_at, w.delivery_id limit 10 * {_WINDOW} for update skip locked),
behind as (
  select f.delivery_id, head.due_at from filled f
   cross join lateral ({_head("h.due_at, h.event_id", "f.sink", "f.order_key")}) head
   where head.event_id < f.event_id)
update outbox_deliveries d set due_at = greatest(behind.due_at, now() + interval '15 seconds')
  from behind where d.delivery_id = behind.delivery_id returning 1
"""  # noqa: S608  composed of constants
_RELEASE_NEXT = f"""
update outbox_deliveries set due_at = now()
 where delivery_id = ({_head("h.delivery_id", "%(sink)s", "%(order_key)s")})
   and due_at > now() and attempts = 0 and leased_until is null
"""  # noqa: S608  composed of constants


async def set_aside(tx: Tx, rows: Leasable) -> int:
    """If the window is full, move the rows in it that wait behind others out of the way; returns how many."""
    return len(await fetch_all(tx, _SET_ASIDE, {"outside": rows is OUTSIDE}))


async def release_next(tx: Tx, lease: Lease) -> None:
    """The row after one that was just settled is due now, if it was set aside."""
    await tx.execute(_RELEASE_NEXT, {"sink": lease.row["sink"], "order_key": lease.row["order_key"]})
