"""Limits what waits for a paused endpoint: so many deliveries; one dead letter stands for all that are left out.

Without a limit, endpoints that never answer fill the database with one row per event and endpoint. The dead
letter (the gap) says from which event to which, and how many; sent again, it becomes a delivery for each of them that
is still kept. Until then later gaps of the endpoint make it longer; events between its ends that have a delivery of
their own are no part of it.
"""

from collections.abc import Iterable
from typing import Any

import structlog

from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.endpoint_breaker import has_breaker
from penstock.kernel.events import matches

log = structlog.get_logger(__name__)

Row = tuple[int, str, str]  # event id, sink, order key

REFILLED_AT_ONCE = 10_000

_LOCK_PAUSED = """
select sink, merchant_id, queued, gap_id from endpoint_breakers
 where sink = any(%s) and paused_until is not null order by sink for update
"""
_COUNT = """
update endpoint_breakers b set queued = b.queued + more.queued
  from unnest(%s::text[], %s::int[]) more (sink, queued) where b.sink = more.sink
"""
_LENGTHEN = """
update outbox_deliveries set gap_from = least(gap_from, %(first)s), gap_to = greatest(gap_to, %(last)s),
    gap_events = gap_events + %(events)s
 where delivery_id = %(gap)s and dead_at is not null and gap_to is not null returning 1
"""
_BEGIN = """
insert into outbox_deliveries
       (event_id, sink, order_key, merchant_id, dead_at, last_error, gap_from, gap_to, gap_events)
select event_id, %(sink)s, order_key, %(merchant)s, now(), %(reason)s, %(first)s, %(last)s, %(events)s
  from outbox_events where event_id = %(first)s on conflict do nothing
returning delivery_id
"""
_LEFT_OUT = """
select e.event_id, e.event_type, e.order_key from outbox_events e
 where e.event_id between %(first)s and %(last)s and e.merchant_id = %(merchant)s and e.relayed_at is not null
   and not exists (select from outbox_deliveries d where d.event_id = e.event_id and d.sink = %(sink)s)
 order by e.event_id limit %(limit)s
"""
_REFILL = """
insert into outbox_deliveries (event_id, sink, order_key, merchant_id)
select event_id, %(sink)s, order_key, %(merchant)s from outbox_events where event_id = any(%(ids)s)
    on conflict do nothing
"""


async def bound(tx: Tx, rows: list[Row], *, most: int) -> list[Row]:
    """Of deliveries that are about to be made, those that may be; the others are in the gap of their endpoint."""
    sinks = sorted({sink for _, sink, _ in rows if has_breaker(sink)})
    paused = {row["sink"]: row for row in await fetch_all(tx, _LOCK_PAUSED, (sinks,))} if sinks else {}
    if not paused:
        return rows
    queued = dict.fromkeys(paused, 0)
    left_out: dict[str, list[int]] = {}
    kept = []
    for row in rows:
        sink = row[1]
        if sink in paused and paused[sink]["queued"] + queued[sink] >= most:
            left_out.setdefault(sink, []).append(row[0])
            continue
        if sink in paused:
            queued[sink] += 1
        kept.append(row)
    if more := {sink: count for sink, count in queued.items() if count}:
        await tx.execute(_COUNT, (list(more), list(more.values())))
    for sink, ids in left_out.items():
        await _leave_out(tx, paused[sink], ids)
    return kept


async def _leave_out(tx: Tx, breaker: dict[str, Any], ids: Iterable[int]) -> None:
    found = sorted(ids)
    gap = {"gap": breaker["gap_id"], "first": found[0], "last": found[-1], "events": len(found)}
    if await fetch_one(tx, _LENGTHEN, gap) is None:
        await _begin(tx, breaker["sink"], breaker["merchant_id"], gap)


async def _begin(tx: Tx, sink: str, merchant_id: str, gap: dict[str, Any]) -> None:
    reason = "not called: too many events wait for the paused endpoint; this letter stands for all that were left out"
    row = await fetch_one(tx, _BEGIN, {**gap, "sink": sink, "merchant": merchant_id, "reason": reason})
    if row is not None:
        await tx.execute("update endpoint_breakers set gap_id = %s where sink = %s", (row["delivery_id"], sink))
        log.warning("webhook.left_out", sink=sink, merchant=merchant_id, first=gap["first"])


async def refill(tx: Tx, gap: dict[str, Any]) -> None:
    """Make deliveries for what a gap stands for, the oldest first; if they are too many, the rest is a new gap."""
    wanted = {
        "first": gap["gap_from"], "last": gap["gap_to"], "sink": gap["sink"], "merchant": gap["merchant_id"],
        "limit": REFILLED_AT_ONCE + 1,
    }  # fmt: skip
    found = await fetch_all(tx, _LEFT_OUT, wanted)
    endpoint = await fetch_one(
        tx, "select event_types from webhook_endpoints where 'webhook:' || endpoint_id = %s and active", (gap["sink"],)
    )
    patterns = endpoint["event_types"] if endpoint else []
    now = found[:REFILLED_AT_ONCE]
    ids = [row["event_id"] for row in now if not patterns or any(matches(each, row["event_type"]) for each in patterns)]
    await tx.execute(_REFILL, {**wanted, "ids": ids})
    for row in found[REFILLED_AT_ONCE:]:
        rest = {"first": row["event_id"], "last": gap["gap_to"], "events": max(1, gap["gap_events"] - 1 - len(ids))}
        await _begin(tx, gap["sink"], gap["merchant_id"], rest)
