"""Writing events into the outbox, in the caller's transaction. The relay takes them from there."""

from collections.abc import Sequence
from typing import Any

from penstock.kernel import json
from penstock.kernel.db import Tx, fetch_one
from penstock.kernel.events import PAYLOAD_BYTES, Event, StoredEvent
from penstock.kernel.telemetry import current_traceparent

COLUMNS = "event_type, entity_type, entity_id, merchant_id, order_key, slot, notice, topics, payload, trace"
_INSERT = f"insert into outbox_events ({COLUMNS}) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608


async def announce(tx: Tx, *events: Event) -> None:
    """Record events; they become visible to relays when the transaction commits, or never."""
    if not events:
        return
    async with tx.cursor() as cursor:
        await cursor.executemany(_INSERT, [row_of(event) for event in events])


async def is_waiting(tx: Tx, entity_type: str, entity_id: str) -> bool:
    """Whether something about this entity has happened that nobody has been told yet."""
    row = await fetch_one(
        tx,
        "select 1 from outbox_events where entity_type = %s and entity_id = %s and relayed_at is null limit 1",
        (entity_type, entity_id),
    )
    return row is not None


def row_of(event: Event) -> Sequence[Any]:
    """The values of COLUMNS."""
    return (
        event.event_type,
        event.entity_type,
        event.entity_id,
        event.merchant_id,
        event.order_key,
        event.slot,
        event.notice,
        list(event.topics),
        _packed(event),
        current_traceparent(),
    )


def _packed(event: Event) -> str:
    packed = json.dump_bytes(event.payload)
    if len(packed) > PAYLOAD_BYTES:
        raise ValueError(f"the payload of {event.event_type} has {len(packed)} bytes; {PAYLOAD_BYTES} is the most")
    return packed.decode()


def stored(row: dict[str, Any]) -> StoredEvent:
    """A row read back."""
    event = Event(
        event_type=row["event_type"],
        entity_type=row["entity_type"],
        entity_id=row["entity_id"],
        payload=row["payload"],
        merchant_id=row["merchant_id"],
        notice=row["notice"],
        topics=tuple(row["topics"]),
        order_key=row["order_key"],
    )
    return StoredEvent(row["event_id"], event, row["trace"], row["occurred_at"])
