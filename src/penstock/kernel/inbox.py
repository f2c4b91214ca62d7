"""The inbox: a message from outside takes effect once, however often it is delivered.

`first_time` inserts the message's natural key in the caller's transaction. Two deliveries at once: the
second waits for the first to commit and then finds the row; if the first rolls back, the second goes on.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from psycopg.types.json import Jsonb

from penstock.kernel.db import Database, Tx, fetch_all, fetch_one

_AT_ONCE = 1_000


async def first_time(
    tx: Tx, source: str, dedup_key: str, *, message_id: str | None = None, payload: Mapping[str, Any] | None = None
) -> bool:
    """True: take effect now, in this transaction. False: it already has."""
    row = await fetch_one(
        tx,
        "insert into catalog.inbox_events (source, dedup_key, first_msg_id, payload, processed_at)"
        " values (%s, %s, %s, %s, now()) on conflict do nothing returning 1",
        (source, dedup_key, message_id, Jsonb(dict(payload or {}))),
    )
    return row is not None


async def forget(database: Database, older_than: timedelta) -> int:
    """Removes messages that are older than anybody still sends them, a batch at a time; returns how many."""
    gone = 0
    while True:
        async with database.statement() as tx:
            some = await fetch_all(
                tx,
                "delete from catalog.inbox_events where ctid = any(array(select ctid from catalog.inbox_events"
                " where received_at < now() - %s::interval order by received_at limit %s)) returning 1",
                (older_than, _AT_ONCE),
            )
        gone += len(some)
        if len(some) < _AT_ONCE:
            return gone
