"""The relay takes committed events out of the outbox: to the event streams, and to one delivery row per receiver.

What it promises, and how:

*At least once.* An event is marked `relayed_at` only after the streams took it. Killed in between, the next
relay publishes it again; receivers know an event by its `event_id`. The delivery rows for reactions and webhooks are
inserted in the same transaction as the mark (unique per event and receiver), so those exist exactly once.

*In order, per order key.* Every event belongs to one of 16 slots, by a hash of its order key. A relay works on a
slot while it holds that slot's row lock, oldest event first, so one key is never in two relays' hands. A killed
relay's connection closes and PostgreSQL frees the lock at once; a paused one is cut off by
`idle_in_transaction_session_timeout`, and what it publishes after waking is a repeat of what others have published.
After dropping repeats by `event_id`, receivers see the order in which events were written.

*An earlier event may commit later.* Sequence numbers are given before the commit, so event 7 can appear after 8 was
relayed. Nothing is skipped, because the relay asks for what is not relayed, not for what is newer. Events of one
entity cannot swap: a move locks the entity's row before it takes a number.

*Merchants in turn.* When more waits in a slot than a small batch, each merchant has its part of the batch
(`relay_turns.py`), and a transaction makes no more than so many delivery rows for one merchant: one that floods the
outbox, or has many endpoints, makes its own events wait. Slots are taken in turn, so an event waits for fifteen short
transactions at most, however long the backlogs are.

*A poison event blocks only its own key.* If the streams refuse a batch, its events go one by one; the one that fails
is tried again later with back-off, and its key waits for it. After the last attempt the refusal becomes a dead
delivery (an operator can send it again), the other receivers get the event, and the key goes on. Redis being away is
nobody's fault and counts as no attempt.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import structlog
from prometheus_client import Counter, Gauge
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel import failpoints
from penstock.kernel.backoff import exponential, pause
from penstock.kernel.db import Database, Tx, fetch_one
from penstock.kernel.errors import PenstockError, raise_unless_unavailable, reason_of
from penstock.kernel.events import StoredEvent
from penstock.kernel.outbox import stored
from penstock.kernel.redis import RedisAway
from penstock.kernel.relay_turns import SlotTurns
from penstock.kernel.settings import SettingsGroup

log = structlog.get_logger(__name__)

_relayed = Counter("penstock_relay_events_total", "Events taken out of the outbox", ["outcome"])
_lag = Gauge("penstock_relay_lag_seconds", "Age of the oldest event not yet relayed", multiprocess_mode="livemax")

_OBSERVE_SECONDS = 5.0

Publish = Callable[[Sequence[StoredEvent]], Awaitable[None]]
Row = tuple[int, str, str]  # event id, sink, order key
Receivers = Callable[[Tx, Sequence[StoredEvent]], Awaitable[list[Row]]]
Bound = Callable[[Tx, list[Row]], Awaitable[list[Row]]]
Wake = Callable[[int], Awaitable[None]]


class RelaySettings(SettingsGroup):
    """How the relay paces itself."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_RELAY_")

    batch: int = Field(500, ge=1, le=10_000, description="Events per transaction")
    merchant_rows: int = Field(
        500, ge=1, description="Deliveries that one transaction makes for one merchant, or those of a single event"
    )
    poll_seconds: timedelta = Field(timedelta(milliseconds=50), description="Wait between looks at an empty outbox")
    max_attempts: int = Field(8, ge=1, description="Attempts before an event that a stream refuses is dead")


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where events go: `publish` to the streams; `receivers` lists delivery rows; `wake` workers.

    `bound` is given the rows that are about to be inserted, and returns those that may be.
    """

    publish: Publish
    receivers: Receivers
    wake: Wake
    bound: Bound | None = None


_INSERT_DELIVERIES = """
insert into outbox_deliveries (event_id, sink, order_key, merchant_id)
select * from unnest(%s::bigint[], %s::text[], %s::text[], %s::text[]) on conflict do nothing
"""
_LAG = """
select coalesce(extract(epoch from now() - min(occurred_at)), 0) as lag
  from outbox_events where relayed_at is null
"""


class Relay:
    """One relay; run as many as wanted."""

    def __init__(self, database: Database, outlets: Outlets, settings: RelaySettings) -> None:
        self._database = database
        self._outlets = outlets
        self._settings = settings
        self._observe_at = 0.0
        self._turns = SlotTurns()

    async def run(self, stop: asyncio.Event) -> None:
        """Relay until told to stop. Servers that are away are waited for."""
        trouble = 0
        while not stop.is_set():
            try:
                await self._observe_lag_at_times()
                relayed = await self.relay_once()
                trouble = 0
                wait = 0.0 if relayed else self._settings.poll_seconds.total_seconds()
            except (*RedisAway, PenstockError) as away:
                if isinstance(away, PenstockError):
                    raise_unless_unavailable(away)
                trouble += 1
                wait = exponential(trouble, first=0.1, most=2.0)
                log.warning("relay.waiting", reason=str(away), seconds=round(wait, 2))
            except (psycopg.Error, ValueError):  # a row that cannot be read or served: the other slots go on
                trouble += 1
                wait = exponential(trouble, first=0.1, most=2.0)
                log.exception("relay.stumbled", seconds=round(wait, 2))
            if wait:
                await pause(stop, wait)

    async def relay_once(self) -> int:
        """Work on one slot; returns how many events left the outbox."""
        async with self._database.transaction() as tx:
            slot = await self._turns.take_slot(tx)
            if slot is None:  # nothing, or only keys that wait, or slots in other hands
                return 0
            events = [stored(row) for row in await self._turns.take_events(tx, slot, self._settings.batch)]
            rows = await self._outlets.receivers(tx, events)
            events = self._turns.within_budget(events, rows, self._settings.merchant_rows)
            failed = await self._publish(events)
            failpoints.reach("relay.published")
            given_up = await self._count_refusals(tx, failed)
            leaving = _before_failures(events, failed) + [event for event in events if event.event_id in given_up]
            deliveries = await self._insert_deliveries(tx, leaving, rows)
            await tx.execute(_MARK, ([event.event_id for event in leaving],))
            failpoints.reach("relay.marked")
        failpoints.reach("relay.committed")
        _relayed.labels("relayed").inc(len(leaving) - len(given_up))
        if deliveries:
            await self._outlets.wake(slot)
        return len(leaving)

    async def _observe_lag_at_times(self) -> None:
        if self._observe_at <= time.monotonic():
            self._observe_at = time.monotonic() + _OBSERVE_SECONDS
            await self.observe_lag()

    async def observe_lag(self) -> float:
        """Seconds that the oldest event has been waiting."""
        async with self._database.transaction() as tx:
            row = await fetch_one(tx, _LAG)
        lag = float(row["lag"]) if row else 0.0
        _lag.set(lag)
        return lag

    async def _publish(self, events: Sequence[StoredEvent]) -> dict[int, str]:
        """Publish all; returns the refused ones with the reason. A refusal holds back later events of its key."""
        try:
            await self._outlets.publish(events)
        except RedisAway:
            raise
        except Exception as refusal:  # noqa: BLE001  an outlet is foreign code: find the event it chokes on
            if len(events) == 1:
                return {events[0].event_id: reason_of(refusal)}
            return await self._publish_singly(events)
        return {}

    async def _publish_singly(self, events: Sequence[StoredEvent]) -> dict[int, str]:
        failed: dict[int, str] = {}
        blocked: set[str] = set()
        for event in events:
            if event.event.order_key in blocked:
                continue
            refused = await self._publish([event])
            if refused:
                failed |= refused
                blocked.add(event.event.order_key)
        return failed

    async def _insert_deliveries(self, tx: Tx, events: Sequence[StoredEvent], planned: list[Row]) -> int:
        merchants = {event.event_id: event.event.merchant_id or "" for event in events}
        rows = [row for row in planned if row[0] in merchants]
        if self._outlets.bound is not None:
            rows = await self._outlets.bound(tx, rows)
        if rows:
            ids, sinks, order_keys = (list(column) for column in zip(*rows, strict=True))
            await tx.execute(_INSERT_DELIVERIES, (ids, sinks, order_keys, [merchants[each] for each in ids]))
        return len(rows)

    async def _count_refusals(self, tx: Tx, failed: dict[int, str]) -> set[int]:
        """Note each refusal; the events that were refused for the last time become dead deliveries."""
        given_up = set()
        for event_id, reason in failed.items():
            row = await fetch_one(tx, _REFUSED, {"id": event_id, "error": reason})
            dead = row is not None and row["attempts"] >= self._settings.max_attempts
            if dead:
                given_up.add(event_id)
                await tx.execute(_GIVE_UP, (event_id,))
            _relayed.labels("dead" if dead else "refused").inc()
            log.warning("relay.dead" if dead else "relay.refused", event_id=event_id, reason=reason)
        return given_up


_MARK = "update outbox_events set relayed_at = now(), retry_at = null where event_id = any(%s)"
_REFUSED = """
update outbox_events
   set attempts = attempts + 1, last_error = %(error)s,
       retry_at = now() + least(interval '5 minutes', interval '1 second' * power(2, least(attempts, 20)))
 where event_id = %(id)s returning attempts
"""
_GIVE_UP = """
insert into outbox_deliveries (event_id, sink, order_key, merchant_id, attempts, last_error, dead_at)
select event_id, 'stream:redis', order_key, coalesce(merchant_id, ''), attempts, last_error, now()
  from outbox_events where event_id = %s
"""


def _before_failures(events: Sequence[StoredEvent], failed: dict[int, str]) -> list[StoredEvent]:
    """Events that were published: all but the refused ones and those that wait behind them."""
    blocked: set[str] = set()
    good = []
    for event in events:
        if event.event_id in failed:
            blocked.add(event.event.order_key)
        elif event.event.order_key not in blocked:
            good.append(event)
    return good
