"""The one upload there is, seen to as a worker would."""

from typing import Any

from penstock.kernel import leases
from penstock.kernel.db import fetch_one
from penstock.kernel.leases import Lease
from penstock.uploads.direct.attending import DUE, attend_one
from penstock.uploads.direct.desk import DirectDesk


async def only_row(desk: DirectDesk) -> dict[str, Any]:
    async with desk.database.transaction() as tx:
        row = await fetch_one(tx, "select *, due_at - now() as due_in from catalog.uploads")
    assert row is not None
    return row


async def change(desk: DirectDesk, assignments: str) -> None:
    async with desk.database.transaction() as tx:
        await tx.execute(f"update catalog.uploads set {assignments}")


async def claim(desk: DirectDesk) -> Lease:
    """Whatever there is, as if it were due."""
    await change(desk, "due_at = now()")
    async with desk.database.transaction() as tx:
        [lease] = await leases.claim(tx, DUE, owner=desk.owner, ttl=desk.settings.lease_seconds)
    return lease


async def attend(desk: DirectDesk) -> dict[str, Any]:
    await attend_one(desk, await claim(desk))
    return await only_row(desk)
