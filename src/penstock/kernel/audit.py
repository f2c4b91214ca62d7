"""The audit log: who did what in someone else's name, or beyond their own data. Rows are only added."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg.types.json import Jsonb

from penstock.kernel.db import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One deed."""

    actor: str  # the person's or program's own id, never the one they act for
    role: str
    action: str  # imperative: impersonate_merchant, redeliver_event
    merchant_id: str | None = None  # whose data it touched
    subject: str | None = None  # which thing, as type:id
    details: Mapping[str, Any] = field(default_factory=dict)
    request_id: str | None = None


async def record(tx: Tx, entry: Entry) -> None:
    """In the transaction of the deed itself, so that neither is there without the other."""
    await tx.execute(
        "insert into audit_log (actor, role, action, merchant_id, subject, details, request_id)"
        " values (%s, %s, %s, %s, %s, %s, %s)",
        (
            entry.actor,
            entry.role,
            entry.action,
            entry.merchant_id,
            entry.subject,
            Jsonb(dict(entry.details)),
            entry.request_id,
        ),
    )
