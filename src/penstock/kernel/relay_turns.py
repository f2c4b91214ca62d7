"""Which events a relay takes next: slots in turn, in a slot merchants in turn, in a key never a later one first.

While little waits in a slot, all of it is taken, oldest first. Of more, every merchant has a lane in the index of
pending events; lanes are listed by hopping through that index, and of each the oldest events are taken. So the cost
grows with the lanes that are listed, not with the backlog.

Events of one key may be in two lanes, because one names the merchant and another does not. So what was found is looked
through once more: from the first event of a key that waits outside the batch, all of the key waits. The oldest event
of a slot is always the first of its lane and of its key: every batch takes something.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.events import StoredEvent

_SMALL = 4  # a batch by so much is what a merchant may have while others wait
_MOST_LANES = 50  # of a batch; the next batch goes on from there

# Few keys wait at a time: they are listed once per look. The `limit` makes a look at a slot end with its first event,
# where a join would go through the whole backlog; `between` and the order leave only the index of pending events.
_READY = """
e.relayed_at is null and e.order_key <> all(array(
  select waiting.order_key from outbox_events waiting where waiting.retry_at > now() and waiting.relayed_at is null))
"""
_TAKE_SLOT = f"""
select slot from outbox_slots s
 where (select true from outbox_events e where e.slot between s.slot and s.slot and {_READY}
         order by e.slot, e.event_id limit 1)
 order by (s.slot + 15 - %(last)s) %% 16 limit 1 for update skip locked
"""  # noqa: S608  composed of constants
_OLDEST = f"""
select * from outbox_events e where e.slot = %(slot)s and {_READY} order by event_id limit %(limit)s
"""  # noqa: S608  composed of constants
_LANE = "coalesce({0}.merchant_id, '')"
_HOP = (
    f"select {_LANE.format('p')} as merchant from outbox_events p where p.slot = %(slot)s and p.relayed_at is null"  # noqa: S608  a constant
    f" and {_LANE.format('p')} {{0}} order by {_LANE.format('p')} limit 1"
)
_LANES = f"""
with recursive lane (merchant, number) as (
  (select found.merchant, 1 from ({_HOP.format(">= %(first)s")}) found)
  union all
  select ({_HOP.format("> lane.merchant")}), lane.number + 1 from lane
   where lane.merchant is not null and lane.number < {_MOST_LANES})
select merchant from lane where merchant is not null
"""  # noqa: S608  composed of constants
_IN_TURN = f"""
select found.* from unnest(%(lanes)s::text[], %(rooms)s::int[]) lane (merchant, room)
 cross join lateral (
   select * from outbox_events e where e.slot = %(slot)s and {_LANE.format("e")} = lane.merchant and {_READY}
    order by e.event_id limit lane.room) found
 order by found.event_id
"""  # noqa: S608  composed of constants
_FIRST_LEFT = """
select taken.order_key, (
    select p.event_id from outbox_events p
     where p.order_key = taken.order_key and p.relayed_at is null
       and p.event_id not in (select unnest(%(ids)s::bigint[]))
     order by p.event_id limit 1) as event_id
  from unnest(%(keys)s::text[]) taken (order_key)
"""


class SlotTurns:
    """The turns of one relay."""

    def __init__(self) -> None:
        self._last = 15
        self._first: dict[int, str] = {}  # per slot the lane where the next batch begins, while there are many
        self._fitted: dict[str, int] = {}  # events of merchants with so many receivers that not all could be taken

    async def take_slot(self, tx: Tx) -> int | None:
        """Lock the next slot that has something to relay and is in nobody's hands."""
        free = await fetch_one(tx, _TAKE_SLOT, {"last": self._last})
        if free is None:
            return None
        self._last = int(free["slot"])
        return self._last

    async def take_events(self, tx: Tx, slot: int, batch: int) -> list[dict[str, Any]]:
        """Up to `batch` events of the slot, the oldest first; of more than a few, so many of each merchant."""
        few = max(1, batch // _SMALL)
        oldest = await fetch_all(tx, _OLDEST, {"slot": slot, "limit": few + 1})
        if len(oldest) <= few:
            return oldest
        lanes = await self._lanes(tx, slot, oldest[0]["merchant_id"] or "")
        room = max(1, min(few, batch // len(lanes))) if len(lanes) > 1 else batch
        rooms = [min(room, 2 * self._fitted.get(merchant, room)) for merchant in lanes]
        return await _in_order(tx, await fetch_all(tx, _IN_TURN, {"slot": slot, "lanes": lanes, "rooms": rooms}))

    async def _lanes(self, tx: Tx, slot: int, oldest: str) -> list[str]:
        """The next merchants, with that of the oldest event: so every batch takes something."""
        first = self._first.get(slot, "")
        found = [row["merchant"] for row in await fetch_all(tx, _LANES, {"slot": slot, "first": first})]
        if len(found) == _MOST_LANES:
            self._first[slot] = found[-1]
        elif self._first.pop(slot, ""):  # the end of the list: its beginning has its turn as well
            found += [row["merchant"] for row in await fetch_all(tx, _LANES, {"slot": slot, "first": ""})]
        return sorted({*found, oldest})

    def within_budget(
        self, events: Sequence[StoredEvent], rows: Sequence[tuple[int, str, str]], most: int
    ) -> list[StoredEvent]:
        """The first events of each merchant that make no more than `most` delivery rows together, or the first alone.

        What comes after an event of its key that has to wait, waits as well.
        """
        needed = Counter(event_id for event_id, _, _ in rows)
        made: Counter[str] = Counter()
        full: set[str] = set()
        waiting: set[str] = set()
        chosen = []
        for event in events:
            merchant, key = event.event.merchant_id or "", event.event.order_key
            if made[merchant] and made[merchant] + needed[event.event_id] > most:
                full.add(merchant)
            if merchant in full or key in waiting:
                waiting.add(key)
                continue
            made[merchant] += needed[event.event_id]
            chosen.append(event)
        self._remember(Counter(event.event.merchant_id or "" for event in chosen), full)
        return chosen

    def _remember(self, taken: Counter[str], full: set[str]) -> None:
        """So that the next batch does not read and plan what it cannot take."""
        for merchant, events in taken.items():
            if merchant in full:
                self._fitted[merchant] = events
            else:
                self._fitted.pop(merchant, None)


async def _in_order(tx: Tx, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without events that come after one of their key which was not found."""
    ids, keys = [row["event_id"] for row in rows], sorted({row["order_key"] for row in rows})
    left = {row["order_key"]: row["event_id"] for row in await fetch_all(tx, _FIRST_LEFT, {"ids": ids, "keys": keys})}
    return [row for row in rows if left[row["order_key"]] is None or row["event_id"] < left[row["order_key"]]]
