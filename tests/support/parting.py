"""A phone that sends in parts, and a process that serves it and can be killed while it does."""

import asyncio
import os
import sys
from typing import Any

import httpx
import structlog

from penstock.kernel import leases
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.identity import Caller, Role
from penstock.kernel.telemetry.logs import configure_logging
from penstock.kernel.telemetry.masking import Masker
from penstock.kernel.telemetry.settings import TelemetrySettings
from penstock.uploads.direct import parts
from penstock.uploads.direct.adapters import open_bucket
from penstock.uploads.direct.attending import DUE, attend_one
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.settings import DirectSettings

PHONE = Caller("5a0c7f6e-1111-4222-8333-444455556666", "m-1", Role.UPLOADER)


async def send(offer: parts.PartsOffer, content: bytes) -> None:
    """The bytes of every part that the offer has an address for."""
    async with httpx.AsyncClient() as client:
        for each in offer.addresses:
            piece = content[(each.number - 1) * offer.part_bytes : each.number * offer.part_bytes]
            answer = await client.put(each.start.url, content=piece, headers=dict(each.start.headers))
            assert answer.status_code == 200, answer.text


async def attended(desk: DirectDesk) -> dict[str, Any]:
    """The one upload there is, when a worker has seen to what is due."""
    async with desk.database.transaction() as tx:
        due = await leases.claim(tx, DUE, owner="w-1", ttl=desk.settings.lease_seconds)
    for lease in due:
        await attend_one(desk, lease)
    async with desk.database.transaction() as tx:
        [row] = await fetch_all(tx, "select *, due_at <= now() as is_due from catalog.uploads")
    return row


async def main(deed: str, upload_id: str) -> None:
    """Says on standard error all that there is to say."""
    configure_logging("serve", "w-1", TelemetrySettings(log_level="debug"), masker=Masker(), stream=sys.stderr)
    settings = DirectSettings()
    database = Database(os.environ["PENSTOCK_DATABASE_URL"], name="parting")
    await database.open()
    structlog.get_logger().debug("parting.begun")
    desk = DirectDesk(database, open_bucket(settings, SystemClock()), settings, SystemClock(), None)  # type: ignore[arg-type]
    await (
        parts.complete(desk, PHONE, upload_id) if deed == "complete" else parts.next_parts(desk, PHONE, upload_id, None)
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
