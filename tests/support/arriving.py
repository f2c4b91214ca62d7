"""A phone announces a file, sends it to the shelf, and the shelf tells us."""

from typing import Any

from penstock.kernel.db import fetch_one
from penstock.kernel.identity import Caller
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.finishing import News, Outcome, judge
from penstock.uploads.direct.opening import Wish, open_upload
from tests.support.shelf import ShelfBucket, md5_of

FILM, QUICKTIME, PDF = "video/mp4", "video/quicktime", "application/pdf"


async def arrived(
    desk: DirectDesk, phone: Caller, content: bytes, content_type: str = FILM, name: str = "holiday.mp4"
) -> dict[str, Any]:
    """The row of the completed upload."""
    opened = await open_upload(desk, phone, Wish(name, len(content), content_type, md5_of(content), None))
    shelf = desk.bucket
    assert isinstance(shelf, ShelfBucket)
    facts = shelf.put(opened.row["object_name"], content, content_type)
    async with desk.database.transaction() as tx:
        outcome, _ = await judge(tx, desk.settings, News(facts, "callback", shelf.reference(facts)))
        row = await fetch_one(tx, "select * from catalog.uploads where upload_id = %s", (opened.row["upload_id"],))
    assert outcome is Outcome.COMPLETED
    assert row is not None
    return row
