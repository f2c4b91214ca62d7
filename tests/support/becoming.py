"""A process in which a direct upload, whose object lies in a file, becomes what it is for; it can be killed."""

import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from penstock.bootstrap import load_settings, started
from penstock.bootstrap.becoming import becomings
from penstock.kernel.db import fetch_one
from tests.support.shelf import ShelfBucket


async def main() -> None:
    content = Path(os.environ["BECOMING_FILE"]).read_bytes()  # noqa: ASYNC240  nothing else runs yet
    async with started(load_settings(), role="serve") as parts:
        async with parts.database.transaction() as tx:
            wanted = UUID(os.environ["BECOMING_UPLOAD"])
            row = await fetch_one(tx, "select * from catalog.uploads where upload_id = %s", (wanted,))
        assert row is not None
        shelf = ShelfBucket()
        facts = shelf.put(row["object_name"], content, row["content_type"])
        shelf.objects[facts.name] = (replace(facts, generation=row["gcs_generation"]), content)
        await becomings(parts, lambda _: shelf)["video" if row["video_id"] else "job"](row)
