"""A job's event stream: the state it begins with, and when it is over."""

import asyncio
from typing import Any
from uuid import UUID

from penstock.documents import events, query_store
from penstock.documents.states import JOB, JobStatus
from penstock.documents.wording import Progress
from penstock.kernel import json, streams
from penstock.kernel.db import Database, Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.outbox import is_waiting
from penstock.kernel.redis import RedisTrouble
from penstock.kernel.streams import Notice, StreamHub
from penstock.kernel.streams.event import Bookmark

_LOOKS, _LOOK_SECONDS = 20, 0.1
_LAST = frozenset({"snapshot", "job_completed", "job_failed"})


async def job_snapshot(tx: Tx, topic: str) -> dict[str, Any]:
    """What is true now, for someone who begins to follow or has lost their place."""
    job_id = UUID(topic.partition(":")[2])
    job = await query_store.job(tx, job_id)
    if job is None:
        return {"job_id": str(job_id), "status": None}
    counts = (await query_store.page_counts(tx, [job_id])).get(job_id, {})
    progress = Progress(job["total_pages"], counts)
    return {
        "job_id": str(job_id),
        "status": job["status"],
        "user_status": job["user_status"],
        "progress_percent": progress.percent(job["status"]),
        "total_pages": job["total_pages"],
        "pages_by_status": counts,
        "total_skus": job["total_skus"],
        "checkpoint_page": job["checkpoint_page"],
        "error_codes": job["error_codes"],
    }


def follow(job_id: UUID, merchant_id: str, last_event_id: str | None) -> streams.Request:
    """Ends with the event, or the snapshot, that says the job has ended. A failure may be followed by a rescue."""
    return streams.Request(
        topic=events.topic_of(job_id),
        merchant_id=merchant_id,
        last_event_id=last_event_id,
        until=_LAST,
        is_last=_says_the_end,
    )


def _says_the_end(notice: Notice) -> bool:
    facts = json.loads(notice.data)
    status = facts.get("status") if notice.name == "snapshot" else facts.get("to")
    return facts.get("entity", "job") == "job" and (status is None or status in JOB.terminal)


async def is_over(database: Database, job_id: UUID, status: str) -> bool:
    """The job has ended, and its last event is in the stream; one that is on its way is given a moment to get there."""
    if JobStatus(status) not in JOB.terminal:
        return False
    for _ in range(_LOOKS):
        async with database.statement() as tx:
            if not await is_waiting(tx, JOB.entity, str(job_id)):
                return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def has_heard_all(hub: StreamHub, job_id: UUID, last_event_id: str | None) -> bool:
    """A client that reconnects after the last event of a job that is over: there is nothing more to come."""
    bookmark = Bookmark.parse(last_event_id)
    if bookmark is None:
        return False
    try:
        run, tail = await hub.reader.run(), await hub.reader.tail(events.topic_of(job_id))
    except (*RedisTrouble, PenstockError):
        return False
    return bookmark.run == run and bookmark.position >= tail
