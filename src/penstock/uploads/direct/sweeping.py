"""What keeps direct uploads going when workers die, and small when years pass. Safe to run twice, and at any time."""

import structlog

from penstock.uploads.direct import store
from penstock.uploads.direct.attending import FIRST_AGAIN
from penstock.uploads.direct.desk import DirectDesk

log = structlog.get_logger(__name__)

_AT_ONCE = 500


async def sweep(desk: DirectDesk) -> None:
    """Free what dead workers held, and wake the living for what is due."""
    if desk.bucket is None:
        return
    async with desk.database.transaction() as tx:
        lost = await store.expire_leases(tx, FIRST_AGAIN, desk.settings.look_at_most, _AT_ONCE)
        is_due = await store.anything_due(tx)
    for row in lost:
        log.warning("direct.worker_lost", upload=str(row["upload_id"]), status=row["status"], looks=row["looks"])
    if is_due:
        await desk.wake()


async def forget_dead_messages(desk: DirectDesk) -> int:
    """Messages that nobody understood, when they are old or too many; returns how many went."""
    settings, gone = desk.settings, 0
    while True:
        async with desk.database.transaction() as tx:
            some = await store.forget_dead(tx, settings.dead_messages_days, settings.dead_messages_most, _AT_ONCE)
        gone += some
        if some < _AT_ONCE:
            return gone
