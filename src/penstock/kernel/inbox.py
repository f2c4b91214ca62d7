"""The inbox: a message from outside takes effect once, however often it is delivered.

`first_time` inserts the message's natural key in the caller's transaction. Two deliveries at once: the
second waits for the first to commit and then finds the row; if the first rolls back, the second goes on.
"""

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from penstock.kernel.db import Tx, fetch_one


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
