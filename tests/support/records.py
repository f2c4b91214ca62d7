"""Pages of records, and the table as tests like to see it."""

from datetime import UTC, datetime
from typing import Any

from penstock.harvest.page import Page
from penstock.harvest.records import Place
from penstock.harvest.spec import Operation
from penstock.kernel.db import Database, fetch_all

EARLY = datetime(2024, 5, 1, tzinfo=UTC)
PLACE = Place("crossref", "works", "hash", run_id=1, batch_no=1, operation=Operation.HARVEST)


def page_of(*items: tuple[Any, ...]) -> Page:
    """Items are (id, updated, body) or (id, updated, body, version)."""
    versions = [item[3] if len(item) > 3 else None for item in items]
    return Page(
        ids=[item[0] for item in items],
        updated=[item[1] for item in items],
        bodies=[item[2] for item in items],
        versions=versions if any(version is not None for version in versions) else None,
        served=len(items),
    )


async def stored(database: Database) -> dict[str, tuple[datetime, str | None, str, int]]:
    """By id: updated, version, body, revision."""
    async with database.transaction() as tx:
        rows = await fetch_all(
            tx, "select provider_id, updated_at, version, body, revision from ing_record order by provider_id"
        )
    return {row["provider_id"]: (row["updated_at"], row["version"], row["body"], row["revision"]) for row in rows}
