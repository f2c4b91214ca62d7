"""An object that is not what was announced is kept for people to look at, under a name where nobody finds it."""

from collections.abc import Mapping
from typing import Any

import structlog

from penstock.kernel import failpoints
from penstock.uploads.direct import store
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.settings import ASIDE

log = structlog.get_logger(__name__)


async def move_aside(desk: DirectDesk, row: Mapping[str, Any]) -> None:
    """Moves it and notes where; a repeat, by us or beside us, ends the same."""
    upload_id, generation = row["upload_id"], row["aside_generation"]
    name = f"{ASIDE}/{upload_id}/{generation}"
    await desk.open_bucket().move_aside(row["object_name"], generation, name)
    failpoints.reach("direct.moved_aside")
    async with desk.database.transaction() as tx:
        await store.note_aside(tx, upload_id, generation, name)
    log.warning("direct.object_moved_aside", upload=str(upload_id), generation=generation)
