"""An object is whole in the bucket: is it what was announced?

Told by a notification or found by looking, it ends here, once per generation: inbox, upload, video and events in the
caller's transaction. Right: the upload is complete. Wrong: it has failed, the video stays where it was, and the
object will be moved aside. What nobody announced is noted and left alone.

Who looks into the bucket sees what is there now. An object that was judged before and is still, or again, in the way of
an open upload is judged once more: as long as it lies there, no other can come.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID, uuid4

import structlog

from penstock.kernel import error_codes, failpoints
from penstock.kernel.db import NOW, Tx, fetch_one
from penstock.kernel.errors import ErrorCode
from penstock.kernel.events import Event
from penstock.kernel.inbox import first_time
from penstock.kernel.outbox import announce
from penstock.kernel.statemachine import Step, move, moving
from penstock.uploads.direct import store
from penstock.uploads.direct.ports import ObjectFacts
from penstock.uploads.direct.settings import DirectSettings, Policy
from penstock.uploads.direct.states import DIRECT_UPLOAD, VIDEO, DirectStatus, VideoStatus

log = structlog.get_logger(__name__)
By = Literal["callback", "reconciler"]
_SOURCE, _UNANNOUNCED = "gcs", "gcs-unannounced"


class Outcome(StrEnum):
    """What came of an object."""

    COMPLETED = "completed"  # it is what was announced
    MISMATCH = "mismatch"  # it is not
    DUPLICATE = "duplicate"  # that was known
    UNKNOWN = "unknown"  # nobody announced it
    SUPERSEDED = "superseded"  # it replaced one that was complete; that one counts


@dataclass(frozen=True, slots=True)
class News:
    """An object, and how we know of it."""

    facts: ObjectFacts
    by: By
    reference: str  # gs://bucket/object
    message_id: str | None = None


async def judge(tx: Tx, settings: DirectSettings, news: News) -> tuple[Outcome, Mapping[str, Any] | None]:
    """With the upload as it was before, if there is one."""
    row = await store.lock_object(tx, news.facts.bucket, news.facts.name)
    if row is None:
        await _first_time(tx, _UNANNOUNCED, news)  # apart: should it be announced one day, it still counts
        return Outcome.UNKNOWN, None
    return await _judge_row(tx, settings, news, row), row


async def _judge_row(tx: Tx, settings: DirectSettings, news: News, row: dict[str, Any]) -> Outcome:
    is_new = await _first_time(tx, _SOURCE, news)
    failpoints.reach("direct.finishing")
    if row["status"] == DirectStatus.COMPLETED:
        is_known = not is_new or row["gcs_generation"] == news.facts.generation
        return Outcome.DUPLICATE if is_known else Outcome.SUPERSEDED
    is_in_the_way = news.by == "reconciler" and row["status"] != DirectStatus.FAILED
    if not is_new and not is_in_the_way:
        return Outcome.DUPLICATE
    policy = policy_of(settings, row)
    fault = _fault(row, news.facts, policy)
    if fault is not None:
        await _fail(tx, row, news, fault)
    else:
        await _complete(tx, row, news, policy)
    failpoints.reach("direct.finished")
    return Outcome.COMPLETED if fault is None else Outcome.MISMATCH


async def _first_time(tx: Tx, source: str, news: News) -> bool:
    facts = news.facts
    key = f"{facts.bucket}/{facts.name}#{facts.generation}"
    seen = {"size": facts.size, "md5": facts.md5_hex, "content_type": facts.content_type, "by": news.by}
    return await first_time(tx, source, key, message_id=news.message_id, payload=seen)


def policy_of(settings: DirectSettings, row: Mapping[str, Any]) -> Policy | None:
    """The one it was announced under; if that was renamed or taken out of the settings meanwhile, the one that takes
    files of its type now. None: they are not taken any more.
    """
    named = next((policy for policy in settings.policies if policy.name == row["policy"]), None)
    return named or settings.policy_for(row["content_type"])


def most_bytes(settings: DirectSettings, row: Mapping[str, Any]) -> int:
    """What a phone may send for this upload: the size that it announced, or the most that is taken of its type."""
    policy = policy_of(settings, row)
    return int(row["expected_size"] or (policy.largest if policy else 0))


def _fault(row: Mapping[str, Any], facts: ObjectFacts, policy: Policy | None) -> ErrorCode | None:
    if facts.md5_hex is None:
        return error_codes.MD5_MISSING
    if facts.md5_hex != row["content_md5"]:
        return error_codes.MD5_MISMATCH
    if row["expected_size"] and row["expected_size"] != facts.size:
        return error_codes.SIZE_MISMATCH
    if policy is None or facts.size > policy.largest:
        return error_codes.FILE_SIZE_EXCEEDED if policy else error_codes.DIRECT_TYPE_REFUSED
    if facts.content_type is not None and facts.content_type.partition(";")[0].strip().lower() != row["content_type"]:
        return error_codes.CONTENT_TYPE_MISMATCH
    return None


def _seen(facts: ObjectFacts) -> dict[str, Any]:
    return {
        "size_bytes": facts.size, "gcs_generation": facts.generation, "gcs_etag": facts.etag,
        "md5_hash": facts.md5_hex, "crc32c": facts.crc32c,
    }  # fmt: skip


async def _fail(tx: Tx, row: dict[str, Any], news: News, fault: ErrorCode) -> None:
    facts, upload_id = news.facts, str(row["upload_id"])
    log.warning("direct.mismatch", upload=upload_id, code=fault.code, generation=facts.generation)
    if row["status"] == DirectStatus.FAILED:
        await store.set_aside(tx, row["upload_id"], facts)
        return
    step = Step(
        upload_id, DirectStatus(row["status"]), DirectStatus.FAILED, by=news.by, trigger="mismatch",
        payload={**store.announced(row), "error_code": fault.code},
        changes={
            **_seen(facts), "error_code": fault.code, "error_message": fault.message.en, "updated_at": NOW,
            "aside_generation": facts.generation, "due_at": NOW, "looks": 0,
        },
    )  # fmt: skip
    await move(tx, DIRECT_UPLOAD, step)


async def _complete(tx: Tx, row: dict[str, Any], news: News, policy: Policy | None) -> None:
    """With a video, all of it is one trip to the database: a video is made if none waits, it and the upload move on."""
    becomes = policy.becomes if policy else "nothing"
    if becomes != "video":
        await move(tx, DIRECT_UPLOAD, _arrived(row, news, becomes, None))
        return
    waits = await store.lock_video(tx, row["video_id"]) if row["video_id"] else None
    is_new = waits is None or waits["status"] != VideoStatus.PENDING_UPLOAD
    video_id = uuid4() if is_new else row["video_id"]
    arrived = _arrived(row, news, becomes, video_id)
    async with tx.pipeline():
        if is_new:
            wanted = {name: row[name] for name in ("user_id", "merchant_id")} | {"title": row["original_filename"]}
            await tx.execute(*store.new_video_query({**wanted, "video_id": video_id}, by=news.by))
        async with moving(tx, (VIDEO, _filmed(row, news, video_id)), (DIRECT_UPLOAD, arrived)):
            failpoints.reach("direct.video_moved")
            told = Event(
                "video.upload.completed", "video", str(video_id), arrived.payload, merchant_id=row["merchant_id"],
                order_key=f"video:{video_id}",
            )  # fmt: skip
            await announce(tx, told)


def _arrived(row: dict[str, Any], news: News, becomes: str, video_id: UUID | None) -> Step:
    facts = {**store.announced(row), "size_bytes": news.facts.size, "reference": news.reference,
             "video_id": str(video_id) if video_id else None}  # fmt: skip
    return Step(
        str(row["upload_id"]), DirectStatus(row["status"]), DirectStatus.COMPLETED, by=news.by, trigger="arrived",
        payload=facts,
        changes={
            **_seen(news.facts), "completed_at": NOW, "updated_at": NOW, "video_id": video_id, "looks": 0,
            "due_at": None if becomes == "nothing" else NOW, "error_code": None, "error_message": None,
            "aside_generation": None,
        },
    )  # fmt: skip


def _filmed(row: dict[str, Any], news: News, video_id: UUID) -> Step:
    return Step(
        str(video_id), VideoStatus.PENDING_UPLOAD, VideoStatus.PROCESSING, by=news.by, trigger="file_arrived",
        payload={"video_id": str(video_id), "upload_id": str(row["upload_id"])},
        changes={
            "raw_file_reference": news.reference, "content_type": row["content_type"], "size_bytes": news.facts.size,
            "declared_seconds": row["declared_seconds"], "updated_at": NOW,
        },
    )  # fmt: skip


async def new_video(tx: Tx, user_id: UUID, merchant_id: str, title: str, *, by: str) -> dict[str, Any]:
    """A video that waits for its file."""
    values = {"video_id": uuid4(), "user_id": user_id, "merchant_id": merchant_id, "title": title}
    made = await fetch_one(tx, *store.new_video_query(values, by=by))
    assert made is not None  # noqa: S101  returning
    return made
