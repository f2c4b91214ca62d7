"""Circuit breaker in front of webhook endpoints, kept in PostgreSQL: shared by all workers, and survives a restart.

After so many failed calls in a row an endpoint is paused: its deliveries wait, and no attempt of theirs is counted.
When the pause is over, one delivery is sent as a probe. Success ends the trouble and everything flows again; failure
pauses the endpoint for twice as long, up to a limit. What has waited for a paused endpoint for longer than all attempts
would have taken is given up, as it would have been without the breaker; and only so many may wait
(`endpoint_backlog.py`), which is why they are counted at every pause. The merchant is told by an event when an
endpoint is paused and when it answers again, at most once an hour each: an endpoint that fails and recovers all the
time must not make more events than it takes.
"""

from dataclasses import dataclass
from datetime import timedelta

import structlog

from penstock.kernel.backoff import exponential
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce

log = structlog.get_logger(__name__)

_FAMILY = "webhook:"
_TELL_AGAIN = timedelta(hours=1)
_GIVEN_UP_AT_ONCE = 10_000
_COUNTED = 100_000  # deliveries of one endpoint, at the most

_FAILED = """
insert into endpoint_breakers as b (sink, merchant_id, failures, failing_since, last_error)
values (%(sink)s, %(merchant)s, 1, now(), %(reason)s)
on conflict (sink) do update set failures = b.failures + 1, last_error = excluded.last_error,
    failing_since = case when b.failures = 0 then now() else b.failing_since end
returning failures, told_at is null or told_at < now() - %(tell_again)s as may_tell
"""
_PAUSE = """
update endpoint_breakers set paused_until = now() + %(pause)s, told_at = case when %(told)s then now() else told_at end
 where sink = %(sink)s
"""
_PROBE = """
update endpoint_breakers set paused_until = now() + %(pause)s where sink = any(%(sinks)s) and paused_until <= now()
returning sink
"""
_RECOVERED = """
update endpoint_breakers b set failures = 0, failing_since = null, paused_until = null
  from (select sink, paused_until is not null and told_at >= failing_since as was_told from endpoint_breakers
         where sink = %(sink)s and failures > 0 for update) before
 where b.sink = before.sink returning b.merchant_id, before.was_told
"""
_GIVE_UP = """
update outbox_deliveries set dead_at = now(), last_error = %(reason)s
 where delivery_id = any(array(
   select delivery_id from outbox_deliveries where sink = %(sink)s and done_at is null and dead_at is null
      and leased_until is null and created_at < now() - %(age)s limit %(limit)s for update skip locked)) returning 1
"""
_COUNT_QUEUED = """
update endpoint_breakers set queued = (select count(*) from (
    select from outbox_deliveries where sink = %(sink)s and done_at is null and dead_at is null limit %(limit)s) open)
 where sink = %(sink)s
"""


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """When an endpoint is paused, for how long, and when its deliveries are given up."""

    failures: int
    first_pause: timedelta
    last_pause: timedelta
    give_up_after: timedelta


def has_breaker(sink: str) -> bool:
    """Webhooks only: a plug-in serves all merchants, so one merchant's events must not pause it."""
    return sink.startswith(_FAMILY)


class EndpointBreaker:
    """Says which endpoints may be called. Every method works in the transaction of its caller."""

    def __init__(self, limits: BreakerLimits) -> None:
        self._limits = limits

    def is_open(self, failures: int) -> bool:
        return failures >= self._limits.failures

    async def admit_probes(self, tx: Tx, sinks: list[str], *, lasting: timedelta) -> set[str]:
        """Of endpoints whose pause is over, those that this worker may probe; no other worker does meanwhile."""
        if not sinks:
            return set()
        return {row["sink"] for row in await fetch_all(tx, _PROBE, {"sinks": sinks, "pause": lasting})}

    async def record_failure(self, tx: Tx, sink: str, merchant_id: str, reason: str) -> None:
        """Count a failed call; pause the endpoint if it was one too many."""
        wanted = {"sink": sink, "merchant": merchant_id, "reason": reason, "tell_again": _TELL_AGAIN}
        row = await fetch_one(tx, _FAILED, wanted)
        if row is None or not self.is_open(row["failures"]):
            return
        times = row["failures"] - self._limits.failures + 1
        seconds = exponential(
            times, first=self._limits.first_pause.total_seconds(), most=self._limits.last_pause.total_seconds()
        )
        tells = times == 1 and row["may_tell"]
        await tx.execute(_PAUSE, {"sink": sink, "pause": timedelta(seconds=seconds), "told": tells})
        given_up = await self._give_up(tx, sink, row["failures"], reason)
        await tx.execute(_COUNT_QUEUED, {"sink": sink, "limit": _COUNTED})
        if tells:
            await announce(tx, _event("paused", sink, merchant_id, {"failures": row["failures"], "reason": reason}))
        log.warning(
            "webhook.paused", sink=sink, merchant=merchant_id, failures=row["failures"], seconds=round(seconds),
            given_up=given_up,
        )  # fmt: skip

    async def record_success(self, tx: Tx, sink: str) -> None:
        """End the trouble of an endpoint that was seen failing."""
        row = await fetch_one(tx, _RECOVERED, {"sink": sink})
        if row is not None and row["was_told"]:
            await announce(tx, _event("resumed", sink, row["merchant_id"], {}))
            log.info("webhook.resumed", sink=sink, merchant=row["merchant_id"])

    async def _give_up(self, tx: Tx, sink: str, failures: int, reason: str) -> int:
        told = f"not called: {failures} calls in a row failed, the last with {reason}"
        wanted = {"sink": sink, "reason": told, "age": self._limits.give_up_after, "limit": _GIVEN_UP_AT_ONCE}
        return len(await fetch_all(tx, _GIVE_UP, wanted))


async def forget(tx: Tx, endpoint_id: str) -> None:
    """The endpoint was removed."""
    await tx.execute("delete from endpoint_breakers where sink = %s", (_FAMILY + endpoint_id,))


def _event(what: str, sink: str, merchant_id: str, payload: dict[str, object]) -> Event:
    return Event(f"webhook.{what}", "webhook", sink.removeprefix(_FAMILY), payload, merchant_id=merchant_id)
