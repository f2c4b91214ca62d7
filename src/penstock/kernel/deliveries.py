"""Delivering events to receivers: one row per event and receiver, leased, retried, in order, given up at last.

Reactions run inside the transaction that marks the row done, so their effects happen once. Sinks (webhooks,
plug-ins) are called between claim and settle, so they may see an event again after a crash. A row is claimable
only when no earlier event of its key is still open for the same receiver (`delivery_order.py`). So a failure backs
off the whole key; after the last attempt the row is dead and the key goes on. A row whose holder died again and
again is dead too. Merchants are served in turn, none has more than its share of the places (`delivery_claim.py`), and
an endpoint that fails again and again is paused (`endpoint_breaker.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from prometheus_client import Counter
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel import endpoint_backlog, error_codes, failpoints, leases
from penstock.kernel.backoff import exponential
from penstock.kernel.db import Database, Tx, fetch_all, fetch_one, server_time
from penstock.kernel.delivery_claim import ClaimLimits, DeliveryClaim
from penstock.kernel.delivery_order import DELIVERIES, release_next
from penstock.kernel.endpoint_breaker import BreakerLimits, EndpointBreaker, has_breaker
from penstock.kernel.errors import PenstockError, reason_of
from penstock.kernel.events import StoredEvent
from penstock.kernel.leases import Lease
from penstock.kernel.outbox import stored
from penstock.kernel.pump import Pump
from penstock.kernel.reactions import Reactions
from penstock.kernel.settings import SettingsGroup
from penstock.kernel.sinks import Send, Sink, SinkRefused
from penstock.kernel.telemetry import continued
from penstock.kernel.tenant_shares import TenantShares, share_of

log = structlog.get_logger(__name__)

_delivered = Counter("penstock_deliveries_total", "Deliveries to reactions and sinks", ["sink", "outcome"])


class DeliverySettings(SettingsGroup):
    """How often and how long a delivery is tried."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_DELIVERY_")

    reactions_at_once: int = Field(4, ge=1, le=100, description="Reactions that run at once in a worker")
    calls_at_once: int = Field(
        64, ge=1, le=1000, description="Webhooks and plug-ins that are called at once by a worker"
    )
    merchant_share: float = Field(
        0.25, gt=0, le=1, description="The part of these places that one merchant's events may take; 1: all of them"
    )
    calls_per_endpoint: int = Field(
        8, ge=1, le=1000, description="Calls at once of a worker to one webhook endpoint; one if its last call failed"
    )
    lease_seconds: timedelta = Field(timedelta(seconds=60), description="After this a dead worker's rows are free")
    handler_seconds: timedelta = Field(timedelta(seconds=30), description="Longest run of one reaction or sink call")
    max_attempts: int = Field(16, ge=1, description="Attempts before a delivery is dead")
    first_retry_seconds: timedelta = Field(timedelta(seconds=1), description="First wait; doubles from there")
    last_retry_seconds: timedelta = Field(timedelta(hours=1), description="Longest wait between attempts")
    pause_after_failures: int = Field(5, ge=1, description="Failed calls in a row after which an endpoint is paused")
    first_pause_seconds: timedelta = Field(
        timedelta(seconds=30), gt=timedelta(0), description="First pause of an endpoint; doubles with each failed probe"
    )
    last_pause_seconds: timedelta = Field(
        timedelta(minutes=5), gt=timedelta(0), description="Longest pause of an endpoint between two probes"
    )

    @property
    def give_up_after(self) -> timedelta:
        """How long it takes until a delivery that always fails is dead."""
        waits = (self.first_retry_seconds * 2.0 ** min(number, 30) for number in range(self.max_attempts - 1))
        return sum((min(self.last_retry_seconds, wait) for wait in waits), self.handler_seconds * self.max_attempts)


@dataclass(frozen=True, slots=True)
class Receivers:
    """Everybody who may want an event. `webhooks` finds endpoints for a batch, `webhook` sends to one.

    `publish` is the relay's way to the event streams; here it serves those that an operator sends again.
    """

    reactions: Reactions
    plugins: dict[str, Sink]
    webhooks: Callable[[Tx, Sequence[StoredEvent]], Awaitable[list[tuple[int, str, str]]]]
    webhook: Callable[[str], Awaitable[Send | None]]
    publish: Callable[[Sequence[StoredEvent]], Awaitable[None]]

    async def rows_for(self, tx: Tx, events: Sequence[StoredEvent]) -> list[tuple[int, str, str]]:
        """(event id, sink, order key) for every event and everyone who wants it."""
        rows = []
        for event in events:
            names = [f"reaction:{name}" for name in self.reactions.names_for(event.event.event_type)]
            names += [f"plugin:{name}" for name, sink in self.plugins.items() if _wants(sink, event.event.event_type)]
            rows += [(event.event_id, name, event.event.order_key) for name in names]
        return rows + await self.webhooks(tx, events)


def _wants(sink: Sink, event_type: str) -> bool:
    """A plug-in that cannot say gets the event: its failure is then its own delivery's, not the relay's."""
    try:
        return sink.wants(event_type)
    except Exception:  # foreign code
        log.exception("sink.cannot_say", sink=sink.name, event_type=event_type)
        return True


class Deliveries:
    """Claims due deliveries and carries them out: reactions and outside calls apart, so that neither waits."""

    def __init__(self, database: Database, receivers: Receivers, settings: DeliverySettings, *, owner: str) -> None:
        self._database = database
        self._receivers = receivers
        self._settings = settings
        self._breaker = EndpointBreaker(
            BreakerLimits(
                settings.pause_after_failures,
                settings.first_pause_seconds,
                settings.last_pause_seconds,
                settings.give_up_after,
            )
        )
        limits = ClaimLimits(owner, settings.lease_seconds, settings.handler_seconds, settings.calls_per_endpoint)
        reactions = share_of(settings.reactions_at_once, 0.75)
        calls = share_of(settings.calls_at_once, settings.merchant_share)
        self._pumps = (
            self._pump(limits, TenantShares(settings.reactions_at_once, reactions), outside=False),
            self._pump(limits, TenantShares(settings.calls_at_once, calls), outside=True),
        )

    def _pump(self, limits: ClaimLimits, shares: TenantShares, *, outside: bool) -> Pump[Lease, StoredEvent]:
        side = DeliveryClaim(outside=outside, shares=shares, breaker=self._breaker, limits=limits)

        async def deliver(lease: Lease, event: StoredEvent) -> None:
            try:
                await self._deliver(lease, event)
            finally:
                side.release(lease)

        return Pump(partial(self._claim, side), deliver, shares.places)

    async def drain(self, stop: asyncio.Event | None = None) -> int:
        """Deliver until nothing is due, or `stop`; returns how many rows were handled."""
        return sum(await asyncio.gather(*(pump.drain(stop) for pump in self._pumps)))

    def hand_back(self) -> None:
        """End what is in hand and free its rows, for a worker whose time to leave has come."""
        for pump in self._pumps:
            pump.cancel()

    async def free_expired(self) -> int:
        """Rows of dead workers become claimable again."""
        async with self._database.transaction() as tx:
            return await leases.expire(tx, DELIVERIES)

    async def _claim(self, side: DeliveryClaim, limit: int) -> list[tuple[Lease, StoredEvent]]:
        while True:
            claimed, may_find_more = await self._look(side, limit)
            if claimed or not may_find_more:
                return claimed

    async def _look(self, side: DeliveryClaim, limit: int) -> tuple[list[tuple[Lease, StoredEvent]], bool]:
        """One claim; and whether the next one may find more."""
        async with self._database.transaction() as tx:
            held, may_find_more = await side.claim(tx, limit)
            found = await fetch_all(
                tx,
                "select * from outbox_events where event_id = any(%s)",
                ([lease.row["event_id"] for lease in held],),
            )
        side.hold(held)
        failpoints.reach("delivery.claimed")
        events = {row["event_id"]: stored(row) for row in found}
        return [(lease, events[lease.row["event_id"]]) for lease in held], may_find_more

    async def _deliver(self, lease: Lease, event: StoredEvent) -> None:
        """Carry out one delivery; its failure is recorded, not raised, unless PostgreSQL itself is away."""
        try:
            await self._attempt(lease, event, str(lease.row["sink"]))
        except PenstockError as failure:
            if not _is_taken_over(failure):
                raise
            log.info("delivery.taken_over", delivery_id=lease.key)
        except asyncio.CancelledError:
            await self._give_back(lease)
            raise

    async def _give_back(self, lease: Lease) -> None:
        """Free a row whose delivery was cut short by us: no attempt of its own, and no death of the worker."""
        try:
            async with self._database.transaction() as tx:
                await leases.settle(tx, DELIVERIES, lease, {"lease_count": lease.row["lease_count"] - 1})
        except PenstockError as failure:  # done after all, taken over, or PostgreSQL is away: the lease runs out
            log.info("delivery.not_given_back", delivery_id=lease.key, reason=str(failure))

    async def _attempt(self, lease: Lease, event: StoredEvent, sink: str) -> None:
        try:
            self._refuse_killer(lease)
            with continued(event.trace, "deliver", sink=sink, event_type=event.event.event_type):
                async with asyncio.timeout(self._settings.handler_seconds.total_seconds()):
                    await self._hand_over(lease, event, sink)
        except PenstockError as failure:
            if failure.code is error_codes.DB_UNAVAILABLE or _is_taken_over(failure):
                raise
            await self._fail(lease, sink, failure)
        except asyncio.CancelledError as failure:  # of something the handler waited for, or of ourselves
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            await self._fail(lease, sink, failure)
        except Exception as failure:  # noqa: BLE001  handlers and sinks are foreign here; their failure is a fact to record
            await self._fail(lease, sink, failure)
        else:
            _delivered.labels(sink.partition(":")[0], "done").inc()

    async def _hand_over(self, lease: Lease, event: StoredEvent, sink: str) -> None:
        family, _, name = sink.partition(":")
        if family == "reaction":
            await self._react(lease, event, name)
        else:
            await self._send(lease, event, family, name)

    def _refuse_killer(self, lease: Lease) -> None:
        """Claimed far more often than it failed: its handler takes the process down each time."""
        deaths = lease.row["lease_count"] - lease.row["attempts"]
        if deaths > self._settings.max_attempts:
            raise _Killer(f"the worker died {deaths - 1} times while handling this")

    async def _react(self, lease: Lease, event: StoredEvent, name: str) -> None:
        reaction = self._receivers.reactions.find(name)
        if reaction is None:
            raise SinkRefused(f"this build has no reaction {name}")
        async with self._database.transaction() as tx:
            await leases.settle(tx, DELIVERIES, lease, {"done_at": await server_time(tx)})
            await reaction.handle(tx, event)
            await release_next(tx, lease)
            failpoints.reach("delivery.handled")

    async def _send(self, lease: Lease, event: StoredEvent, family: str, name: str) -> None:
        send = await self._find_send(family, name)
        if send is not None:
            await send(event)
            failpoints.reach("delivery.sent")
        async with self._database.transaction() as tx:
            await leases.settle(tx, DELIVERIES, lease, {"done_at": await server_time(tx)})
            await release_next(tx, lease)
            if send is not None and lease.row["endpoint_failures"]:
                await self._breaker.record_success(tx, lease.row["sink"])

    async def _find_send(self, family: str, name: str) -> Send | None:
        """None: the receiver is gone for good, nothing is owed to it."""
        if family == "webhook":
            return await self._receivers.webhook(name)
        if family == "stream":
            return self._publish_again
        plugin = self._receivers.plugins.get(name)
        if plugin is None:
            raise SinkRefused(f"no plug-in sink {name} is installed")
        return plugin.send

    async def _publish_again(self, event: StoredEvent) -> None:
        await self._receivers.publish([event])

    async def _fail(self, lease: Lease, sink: str, failure: BaseException) -> None:
        attempts = lease.row["attempts"] + 1
        dead = attempts >= self._settings.max_attempts or isinstance(failure, _Killer)
        reason = str(failure) if isinstance(failure, _Killer) else reason_of(failure)
        wait = exponential(
            attempts,
            first=self._settings.first_retry_seconds.total_seconds(),
            most=self._settings.last_retry_seconds.total_seconds(),
        )
        async with self._database.transaction() as tx:
            now = await server_time(tx)
            due = now + timedelta(seconds=wait)
            changes: dict[str, Any] = {"attempts": attempts, "last_error": reason, "due_at": due}
            await leases.settle(tx, DELIVERIES, lease, changes | ({"dead_at": now} if dead else {}))
            if dead:
                await release_next(tx, lease)
            if has_breaker(sink) and not isinstance(failure, _Killer):
                await self._breaker.record_failure(tx, sink, lease.row["merchant_id"], reason)
        _delivered.labels(sink.partition(":")[0], "dead" if dead else "failed").inc()
        log.warning("delivery.dead" if dead else "delivery.failed", delivery_id=lease.key, sink=sink, reason=reason)


class _Killer(Exception):
    pass


def _is_taken_over(failure: PenstockError) -> bool:
    """The delivery's own lease is lost; a handler may well have lost another one."""
    return failure.code is error_codes.LEASE_LOST and failure.details.get("table") == DELIVERIES.table


async def dead_letters(tx: Tx, *, merchant_id: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """Deliveries that were given up, newest first; of one merchant, or of all."""
    return await fetch_all(
        tx,
        "select d.delivery_id, d.event_id, d.sink, d.attempts, d.last_error, d.dead_at, d.gap_from, d.gap_to,"
        " d.gap_events, e.event_type, e.entity_type,"
        " e.entity_id, e.merchant_id from outbox_deliveries d join outbox_events e using (event_id)"
        " where d.dead_at is not null and (%(merchant)s::text is null or e.merchant_id = %(merchant)s)"
        " order by d.delivery_id desc limit %(limit)s",
        {"merchant": merchant_id, "limit": limit},
    )


async def send_again(tx: Tx, delivery_id: int, *, merchant_id: str | None = None) -> None:
    """Give a dead delivery a fresh start; NOT_FOUND if there is no such dead letter of this merchant.

    One that stands for events which were left out becomes a delivery for each of them.
    """
    row = await fetch_one(
        tx,
        "with gap as (select delivery_id, gap_from, gap_to, gap_events from outbox_deliveries"
        " where delivery_id = %(id)s for update)"
        " update outbox_deliveries d set dead_at = null, attempts = 0, lease_count = 0, due_at = now(),"
        " created_at = now(), gap_from = null, gap_to = null, gap_events = null"
        " from outbox_events e, gap where d.delivery_id = gap.delivery_id and d.dead_at is not null"
        " and e.event_id = d.event_id and (%(merchant)s::text is null or e.merchant_id = %(merchant)s)"
        " returning d.sink, d.merchant_id, gap.*",
        {"id": delivery_id, "merchant": merchant_id},
    )
    if row is None:
        raise PenstockError(error_codes.NOT_FOUND, delivery_id=delivery_id)
    if row["gap_to"] is not None:
        await endpoint_backlog.refill(tx, row)
