"""A phone that sends in parts, and a process that serves it and can be killed while it does."""

import asyncio
import os
import sys

import httpx

from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database
from penstock.kernel.identity import Caller, Role
from penstock.uploads.direct import parts
from penstock.uploads.direct.adapters import open_bucket
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.finishing import News, Outcome, finish
from penstock.uploads.direct.looking import look
from penstock.uploads.direct.settings import DirectSettings

PHONE = Caller("5a0c7f6e-1111-4222-8333-444455556666", "m-1", Role.UPLOADER)


async def send(offer: parts.PartsOffer, content: bytes) -> None:
    """The bytes of every part that the offer has an address for."""
    async with httpx.AsyncClient() as client:
        for each in offer.addresses:
            piece = content[(each.number - 1) * offer.part_bytes : each.number * offer.part_bytes]
            answer = await client.put(each.start.url, content=piece, headers=dict(each.start.headers))
            assert answer.status_code == 200, answer.text


async def looked_at(desk: DirectDesk, object_name: str) -> Outcome | None:
    """What a worker does with an upload that is due."""
    found = await look(desk.bucket, object_name)
    if found is None:
        return None
    async with desk.database.transaction() as tx:
        return await finish(tx, desk.settings, News(found, "reconciler", desk.bucket.reference(object_name)))


async def main(deed: str, upload_id: str) -> None:
    settings = DirectSettings()
    database = Database(os.environ["PENSTOCK_DATABASE_URL"], name="parting")
    await database.open()
    desk = DirectDesk(database, open_bucket(settings, SystemClock()), settings, SystemClock(), None)  # type: ignore[arg-type]
    await (
        parts.complete(desk, PHONE, upload_id) if deed == "complete" else parts.next_parts(desk, PHONE, upload_id, None)
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
