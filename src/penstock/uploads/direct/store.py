"""All SQL of direct uploads and videos."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from penstock.kernel import error_codes
from penstock.kernel.db import Database, Tx, fetch_all, fetch_one
from penstock.kernel.entering import Entering, Newcomer, newcomer
from penstock.kernel.errors import ErrorCode, PenstockError
from penstock.kernel.statemachine import Query, Step, enter_query
from penstock.uploads.direct.ports import ObjectFacts
from penstock.uploads.direct.quota import QUEUED_FOR_ROOM
from penstock.uploads.direct.states import DIRECT_UPLOAD, VIDEO, DirectStatus, VideoStatus

Row = dict[str, Any]

_BEGIN = (
    f"{QUEUED_FOR_ROOM} insert into catalog.uploads (upload_id, user_id, video_id, bucket, object_name,"  # noqa: S608  a constant
    " original_filename, content_type, expected_size, content_md5, merchant_id, user_name, policy, declared_seconds,"
    " due_at) select upload_id, user_id, video_id, bucket, object_name, original_filename, content_type,"
    " expected_size, content_md5, merchant_id, user_name, policy, declared_seconds, now() + %(look_after)s from queued"
    " where uploads <= %(most_uploads)s and bytes <= %(most_bytes)s"
    " order by user_id, content_md5"  # so that the crowds of two servers never wait for each other in a circle
    " on conflict do nothing returning *"
)

_NEW_VIDEO = (
    "insert into catalog.videos (video_id, user_id, merchant_id, title)"
    " values (%(video_id)s, %(user_id)s, %(merchant_id)s, %(title)s) returning *"
)

# What should have been done long ago, by the bucket it waits for.
STUCK = (
    "select bucket, count(*)::int as uploads from catalog.uploads where due_at is not null and looks > 5"
    " and status in ('completed', 'failed') group by bucket order by bucket"
)

_OF_OBJECT = "from catalog.uploads where bucket = %(bucket)s and object_name = %(name)s"


def beginning(database: Database, look_after: timedelta, limits: Mapping[str, int]) -> Entering:
    """No row: this user has announced this content before, the video has another upload, or there is no room."""
    return Entering(database, DIRECT_UPLOAD, _BEGIN, {"look_after": look_after, **limits})


def new_upload(values: Mapping[str, Any]) -> Newcomer:
    step = Step(
        str(values["upload_id"]), None, DirectStatus.PENDING, by="uploads", trigger="announced",
        operator=values["user_name"], merchant_id=values["merchant_id"], payload=announced(values),
    )  # fmt: skip
    return newcomer(DIRECT_UPLOAD, step, values)


def announced(row: Mapping[str, Any]) -> dict[str, Any]:
    """What events say of an upload."""
    return {
        "upload_id": str(row["upload_id"]),
        "user_id": str(row["user_id"]),
        "policy": row["policy"],
        "bucket": row["bucket"],
        "object_name": row["object_name"],
        "filename": row["original_filename"],
    }


async def of_content(tx: Tx, user_id: UUID, content_md5: str) -> Row | None:
    return await fetch_one(tx, *of_content_query(user_id, content_md5))


def of_content_query(user_id: UUID, content_md5: str) -> Query:
    query = "select * from catalog.uploads where user_id = %(user_id)s and content_md5 = %(content_md5)s"
    return query, {"user_id": user_id, "content_md5": content_md5}


async def find(tx: Tx, upload_id: UUID) -> Row | None:
    return await fetch_one(tx, "select * from catalog.uploads where upload_id = %s", (upload_id,))


async def lock(tx: Tx, upload_id: UUID) -> Row | None:
    return await fetch_one(tx, "select * from catalog.uploads where upload_id = %s for update", (upload_id,))


async def lock_object(tx: Tx, bucket: str, object_name: str) -> Row | None:
    """The upload of an object, locked, and with it the video that waits for it.

    Who binds a video locks it first and its uploads then; in any other order the two would wait for each other. So
    the video is looked up before; one that was bound in between is locked only if nobody else has it just now.
    """
    place = {"bucket": bucket, "name": object_name}
    seen = await fetch_one(tx, f"select video_id {_OF_OBJECT}", place)
    if seen is None:
        return None
    if seen["video_id"] is not None:
        await lock_video(tx, seen["video_id"])
    row = await fetch_one(tx, f"select * {_OF_OBJECT} for update", place)
    if row is not None and row["video_id"] not in (None, seen["video_id"]) and row["status"] != DirectStatus.COMPLETED:
        await _lock_video_at_once(tx, row["video_id"])
    return row


async def _lock_video_at_once(tx: Tx, video_id: UUID) -> None:
    query = "select 1 from catalog.videos where video_id = %s for update skip locked"
    if await fetch_one(tx, query, (video_id,)) is None:
        raise PenstockError(error_codes.STATE_CHANGED, entity="video", id=str(video_id))


async def fill_in(tx: Tx, upload_id: UUID, *, expected_size: int, video_id: UUID | None) -> Row | None:
    """What the first announcement did not say, while the file has not come."""
    return await fetch_one(
        tx,
        "update catalog.uploads set expected_size = case when expected_size = 0 then %(size)s else expected_size end,"
        " video_id = coalesce(%(video)s, video_id), updated_at = now()"
        " where upload_id = %(id)s and status in ('pending', 'uploading') returning *",
        {"id": upload_id, "size": expected_size, "video": video_id},
    )


async def open_longer(tx: Tx, upload_id: UUID, after: timedelta, look_after: timedelta) -> Row | None:
    """A phone may begin a session again: the time to wait for it begins anew. Not more often than every `after`."""
    return await fetch_one(
        tx,
        "update catalog.uploads set opened_at = now(), looks = 0, due_at = now() + %(look)s, updated_at = now()"
        " where upload_id = %(id)s and status in ('pending', 'uploading') and opened_at < now() - %(after)s::interval"
        " returning *",
        {"id": upload_id, "after": after, "look": look_after},
    )


async def change_bucket(tx: Tx, upload_id: UUID, values: Mapping[str, Any]) -> None:
    """Another bucket is in use by now: nobody can sign for the old one, so the file is waited for in the new."""
    await tx.execute(
        "update catalog.uploads set bucket = %(bucket)s, object_name = %(object_name)s, multipart_id = null,"
        " opened_at = now(), opened_count = opened_count + 1, looks = 0, due_at = now() + %(look_after)s,"
        " updated_at = now() where upload_id = %(id)s and status in ('pending', 'uploading')"
        " and bucket <> %(bucket)s",
        {**values, "id": upload_id},
    )


async def release_video(tx: Tx, video_id: UUID) -> None:
    """Another file comes for the video: what has not come loses it."""
    await tx.execute(
        "update catalog.uploads set video_id = null, updated_at = now() where video_id = %s and status <> 'completed'",
        (video_id,),
    )


async def set_aside(tx: Tx, upload_id: UUID, facts: ObjectFacts) -> None:
    """One more object that is not what was announced, of an upload that has failed already. News come in any order:
    only the newest can still be there, and it is not forgotten for an older one.
    """
    await tx.execute(
        "update catalog.uploads set aside_generation = %(new)s, due_at = now(), looks = 0, updated_at = now()"
        " where upload_id = %(id)s and (aside_generation is null"
        " or (length(aside_generation), aside_generation) < (length(%(new)s::text), %(new)s::text))",
        {"new": facts.generation, "id": upload_id},
    )


async def expire_leases(tx: Tx, first: timedelta, most: timedelta, limit: int) -> list[Row]:
    """Frees what nobody has renewed, each to be looked at a while later: it may be what its worker died of."""
    return await fetch_all(
        tx,
        "update catalog.uploads set lease_owner = null, leased_until = null, looks = looks + 1,"
        " due_at = greatest(due_at, now() + least(%(first)s * (2 ^ least(looks, 30))::float8, %(most)s::interval))"
        " where upload_id = any(array(select upload_id from catalog.uploads where leased_until < clock_timestamp()"
        " order by leased_until limit %(limit)s for update skip locked)) returning upload_id, status, looks",
        {"first": first, "most": most, "limit": limit},
    )


async def anything_due(tx: Tx) -> bool:
    row = await fetch_one(
        tx, "select 1 from catalog.uploads where due_at <= now() and leased_until is null order by due_at limit 1"
    )
    return row is not None


async def note_aside(tx: Tx, upload_id: UUID, generation: str, name: str) -> bool:
    """It has been moved: nothing is left to do, unless another came meanwhile. False: somebody has noted it before."""
    noted = await tx.execute(
        "update catalog.uploads set aside_name = %s, aside_generation = null,"
        " due_at = nullif(due_at, case status when 'failed' then due_at end), updated_at = now()"
        " where upload_id = %s and aside_generation = %s",
        (name, upload_id, generation),
    )
    return noted.rowcount > 0


@dataclass(frozen=True, slots=True)
class Place:
    """So many rows of a merchant (None: of all), made before this one."""

    merchant_id: str | None
    before: tuple[datetime, UUID] | None
    limit: int


async def page_of_uploads(tx: Tx, place: Place, user_id: UUID | None = None) -> list[Row]:
    return await _page(tx, ("uploads", "upload_id"), place, user_id)


async def page_of_videos(tx: Tx, place: Place) -> list[Row]:
    return await _page(tx, ("videos", "video_id"), place, None)


async def _page(tx: Tx, listed: tuple[str, str], place: Place, user_id: UUID | None) -> list[Row]:
    table, key = listed
    moment, last = place.before or (None, None)
    conditions = [
        condition
        for condition, value in (
            ("merchant_id = %(merchant)s", place.merchant_id),
            ("user_id = %(user)s", user_id),
            (f"(created_at, {key}) < (%(moment)s, %(last)s)", moment),
        )
        if value is not None
    ]
    query = (
        f"select * from catalog.{table} where {' and '.join(conditions) or 'true'}"  # noqa: S608  pieces of our own
        f" order by created_at desc, {key} desc limit %(limit)s"
    )
    values = {"merchant": place.merchant_id, "user": user_id, "moment": moment, "last": last, "limit": place.limit}
    return await fetch_all(tx, query, values)


def new_video_query(values: Mapping[str, Any], *, by: str) -> Query:
    """A video that waits for its file; `values` has its id too."""
    video_id = str(values["video_id"])
    step = Step(
        video_id, None, VideoStatus.PENDING_UPLOAD, by=by, trigger="made", merchant_id=values["merchant_id"],
        payload={"video_id": video_id, "title": values["title"]},
    )  # fmt: skip
    return enter_query(VIDEO, step, _NEW_VIDEO, values)


async def find_video(tx: Tx, video_id: UUID) -> Row | None:
    return await fetch_one(tx, "select * from catalog.videos where video_id = %s", (video_id,))


async def lock_video(tx: Tx, video_id: UUID) -> Row | None:
    return await fetch_one(tx, "select * from catalog.videos where video_id = %s for update", (video_id,))


async def forget_dead(tx: Tx, older_than: timedelta, most: int, limit: int) -> int:
    """Removes up to `limit` of the messages that are too old, or too many."""
    gone = await fetch_all(
        tx,
        "delete from catalog.dead_messages where message_id in (select message_id from catalog.dead_messages"
        " where received_at < now() - %(age)s::interval or message_id <= (select message_id"
        " from catalog.dead_messages order by message_id desc offset %(most)s limit 1)"
        " order by message_id limit %(limit)s) returning 1",
        {"age": older_than, "most": most, "limit": limit},
    )
    return len(gone)


async def note_film(tx: Tx, video_id: UUID, seconds: float, container: str) -> None:
    """What the file says of itself."""
    await tx.execute(
        "update catalog.videos set duration_seconds = round(%s::numeric, 3), container = %s, updated_at = now()"
        " where video_id = %s",
        (seconds, container, video_id),
    )


async def note_job(tx: Tx, upload_id: UUID, job_id: UUID | None, fault: ErrorCode | None) -> None:
    """What a complete upload became, or why it became nothing; noted once."""
    await tx.execute(
        "update catalog.uploads set job_id = %s, error_code = %s, error_message = %s, updated_at = now()"
        " where upload_id = %s and status = 'completed' and job_id is null",
        (job_id, fault and fault.code, fault and fault.message.en, upload_id),
    )


async def bury(tx: Tx, source: str, reason: str, body: bytes) -> None:
    await tx.execute(
        "insert into catalog.dead_messages (source, reason, body) values (%s, %s, %s)", (source, reason, body)
    )
