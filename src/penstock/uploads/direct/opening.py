"""A phone announces a file and learns where to send it.

The pair of user and MD5 names the file: whoever asks again, ten times at once or after a week, gets the same row and
the same object name. A failed upload is opened anew; a complete one says so and needs no bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid4, uuid5

from penstock.kernel import error_codes, failpoints
from penstock.kernel.db import Tx, server_time
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.statemachine import Step, move
from penstock.uploads.direct import metrics, quota, store
from penstock.uploads.direct.aside import clear_the_way
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.finishing import most_bytes
from penstock.uploads.direct.ports import SignedStart
from penstock.uploads.direct.settings import Policy
from penstock.uploads.direct.states import DIRECT_UPLOAD, DirectStatus, VideoStatus

_USERS = UUID("6f0c2f0e-5a0a-5c0f-9a52-0a6f3b1f7e11")
_MD5 = re.compile(r"[0-9a-f]{32}")
_LONGEST_NAME = 255
_MOST_BYTES = 2**63
_MOST_SECONDS = 2**31
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Wish:
    """What a phone says of its file."""

    filename: str
    size_bytes: int
    content_type: str
    content_md5_hex: str
    duration_seconds: int | None = None
    video_id: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The upload, and how to begin: `start` is None when it is complete, or where bytes go in parts."""

    row: dict[str, Any]
    start: SignedStart | None
    already_completed: bool


def user_uuid(caller: Caller) -> UUID:
    """The user in our tables, made of merchant and `sub`: users of two merchants never share an upload or an object."""
    return _user_uuid(caller.merchant_id, caller.user_id)


@lru_cache(maxsize=4096)
def _user_uuid(merchant_id: str, user_id: str) -> UUID:
    return uuid5(_USERS, f"{merchant_id}\n{as_uuid(user_id) or user_id}")


async def open_upload(desk: DirectDesk, caller: Caller, wish: Wish) -> Opened:
    with metrics.OPENING_SECONDS.time():
        try:
            opened = await _open(desk, caller, wish)
        except PenstockError as refused:
            metrics.OPENED.labels(refused.code.code).inc()
            raise
    metrics.OPENED.labels("already_completed" if opened.already_completed else "opened").inc()
    return opened


async def _open(desk: DirectDesk, caller: Caller, wish: Wish) -> Opened:
    bucket = desk.open_bucket()
    row = await _row_for(desk, caller, _values(desk, caller, wish, _checked(desk, wish)))
    failpoints.reach("direct.announced")
    if row["status"] == DirectStatus.COMPLETED:
        return Opened(row, None, already_completed=True)
    start = await bucket.sign_start(row["object_name"], row["content_type"], most_bytes(desk.settings, row))
    failpoints.reach("direct.signed")
    return Opened(row, start, already_completed=False)


def _checked(desk: DirectDesk, wish: Wish) -> tuple[Policy, str, UUID | None]:
    if wrong := dict(_faults(wish)):
        raise PenstockError(error_codes.REQUEST_INVALID, fields=wrong)
    policy = desk.settings.policy_for(wish.content_type)
    if policy is None:
        accepted = ", ".join(each for known in desk.settings.policies for each in known.content_types)
        raise PenstockError(error_codes.DIRECT_TYPE_REFUSED, content_type=wish.content_type[:100], accepted=accepted)
    if wish.size_bytes > policy.largest:
        raise PenstockError(error_codes.FILE_SIZE_EXCEEDED, size=wish.size_bytes, largest=int(policy.largest))
    if policy.longest_seconds and (wish.duration_seconds or 0) > policy.longest_seconds:
        raise PenstockError(error_codes.VIDEO_TOO_LONG, seconds=wish.duration_seconds, longest=policy.longest_seconds)
    if wish.video_id and policy.becomes != "video":
        raise PenstockError(error_codes.REQUEST_INVALID, fields={"video_id": f"not with {wish.content_type}"})
    return policy, wish.content_md5_hex.strip().lower(), UUID(wish.video_id) if wish.video_id else None


def _faults(wish: Wish) -> Iterator[tuple[str, str]]:
    name = wish.filename.strip()
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        yield "filename", f"1 to {_LONGEST_NAME} printable characters"
    if not _MD5.fullmatch(wish.content_md5_hex.strip().lower()):
        yield "content_md5_hex", "32 hexadecimal digits"
    if not 0 <= wish.size_bytes < _MOST_BYTES:
        yield "size_bytes", "0 (not known) or more"
    if not 0 <= (wish.duration_seconds or 0) < _MOST_SECONDS:
        yield "duration_seconds", "0 (not known) or more"
    if wish.video_id and as_uuid(wish.video_id) is None:
        yield "video_id", "a UUID"


def as_uuid(value: str) -> UUID | None:
    """Only of its one usual spelling: others would be other users with the same id."""
    try:
        found = UUID(value)
    except ValueError:
        return None
    return found if str(found) == value.lower() else None


async def _row_for(desk: DirectDesk, caller: Caller, values: dict[str, Any]) -> dict[str, Any]:
    is_alone = values["video_id"] is not None
    for _ in range(_TRIES):
        begin = _begin_alone(desk, caller, values) if is_alone else desk.beginning.enter(store.new_upload(values))
        if (row := await begin) is not None:
            return row
        known = await desk.commits.run(*store.of_content_query(values["user_id"], values["content_md5"]))
        if known is None:  # an upload that is gone, or there was no room for all that came together
            is_alone = True
            continue
        _same_or_differs(known, values)
        if (row := await _go_on(desk, caller, known, values)) is not None:
            return row
    raise PenstockError(error_codes.STATE_CHANGED, entity="direct_upload", upload_id=str(values["upload_id"]))


async def _begin_alone(desk: DirectDesk, caller: Caller, values: dict[str, Any]) -> dict[str, Any] | None:
    """The row, made now; None: this user has announced this content before. UPLOAD_SLOTS_FULL undoes the binding."""
    content = values["user_id"], values["content_md5"]
    async with desk.database.transaction() as tx:
        if await store.of_content(tx, *content) is not None:
            return None
        if values["video_id"] is not None:
            await _bind(tx, caller, values)
        made = await desk.beginning.enter_in(tx, store.new_upload(values))
        if made is None and await store.of_content(tx, *content) is None:
            await quota.check_room(tx, desk.settings, values)
        return made


def _values(desk: DirectDesk, caller: Caller, wish: Wish, checked: tuple[Policy, str, UUID | None]) -> dict[str, Any]:
    policy, md5, video_id = checked
    user_id = user_uuid(caller)
    return {
        "upload_id": uuid4(),
        "user_id": user_id,
        "video_id": video_id,
        "bucket": desk.settings.bucket,
        "object_name": f"{policy.folder}/{user_id}/{md5}",
        "original_filename": wish.filename.strip(),
        "content_type": wish.content_type.partition(";")[0].strip().lower(),
        "expected_size": wish.size_bytes,
        "content_md5": md5,
        "merchant_id": caller.merchant_id,
        "user_name": caller.user_id,
        "policy": policy.name,
        "declared_seconds": wish.duration_seconds or None,
        "look_after": desk.settings.look_after + desk.settings.signed_url_ttl_seconds,
    }


async def _bind(tx: Tx, caller: Caller, values: dict[str, Any]) -> None:
    """The video waits for a file and is the caller's; what was on its way to it before is no longer."""
    video = await store.lock_video(tx, values["video_id"])
    if video is None or video["merchant_id"] != caller.merchant_id or video["user_id"] != values["user_id"]:
        raise PenstockError(error_codes.VIDEO_NOT_FOUND, video_id=str(values["video_id"]))
    own = await store.of_content(tx, values["user_id"], values["content_md5"])
    if own is not None and (own["video_id"] == values["video_id"] or own["status"] == DirectStatus.COMPLETED):
        return
    if video["status"] != VideoStatus.PENDING_UPLOAD:
        raise PenstockError(error_codes.VIDEO_TAKEN, video_id=str(values["video_id"]), status=video["status"])
    await store.release_video(tx, values["video_id"])


def _same_or_differs(known: dict[str, Any], values: dict[str, Any]) -> None:
    """The same content with other facts: one of the two is wrong, and it is not for us to say which."""
    differ = {}
    if known["status"] != DirectStatus.FAILED:
        if known["content_type"] != values["content_type"]:
            differ["content_type"] = known["content_type"]
        sizes = {known["expected_size"] or known["size_bytes"], values["expected_size"]} - {0}
        if len(sizes) > 1:
            differ["size_bytes"] = str(known["expected_size"] or known["size_bytes"])
    if differ:
        raise PenstockError(error_codes.DIRECT_UPLOAD_DIFFERS, upload_id=str(known["upload_id"]), fields=differ)


async def _go_on(
    desk: DirectDesk, caller: Caller, known: dict[str, Any], values: dict[str, Any]
) -> dict[str, Any] | None:
    """The upload as it stands now; None: it has changed meanwhile, look again."""
    if known["status"] == DirectStatus.FAILED:
        return await _reopen(desk, caller, known, values)
    if known["status"] != DirectStatus.COMPLETED and known["bucket"] != values["bucket"]:
        async with desk.database.transaction() as tx:
            await store.change_bucket(tx, known["upload_id"], values)
        return None
    if values["video_id"] is not None or (known["expected_size"] == 0 and values["expected_size"] > 0):
        return await _fill_in(desk, caller, known, values)
    if known["status"] == DirectStatus.COMPLETED:
        return known
    return await _open_longer(desk, known)


async def _fill_in(
    desk: DirectDesk, caller: Caller, known: dict[str, Any], values: dict[str, Any]
) -> dict[str, Any] | None:
    async with desk.database.transaction() as tx:
        if values["video_id"] is not None:
            await _bind(tx, caller, values)
        if known["status"] == DirectStatus.COMPLETED:
            return known
        filled = await store.fill_in(
            tx, known["upload_id"], expected_size=values["expected_size"], video_id=values["video_id"]
        )
    return filled and await _open_longer(desk, filled)


async def _open_longer(desk: DirectDesk, known: dict[str, Any]) -> dict[str, Any]:
    """The signature that follows is good for a whole session. Mostly the last is not long ago: nothing is written."""
    ttl = desk.settings.signed_url_ttl_seconds
    if known["opened_at"] > desk.clock.now() - ttl:
        return known
    async with desk.database.transaction() as tx:
        return await store.open_longer(tx, known["upload_id"], ttl, desk.settings.look_after + ttl) or known


async def _reopen(
    desk: DirectDesk, caller: Caller, known: dict[str, Any], values: dict[str, Any]
) -> dict[str, Any] | None:
    if known["aside_generation"] is not None:
        await clear_the_way(desk, known)
    async with desk.database.transaction() as tx:
        if values["video_id"] is not None:
            await _bind(tx, caller, values)
        locked = await store.lock(tx, known["upload_id"])
        if locked is None or locked["status"] != DirectStatus.FAILED or locked["aside_generation"] is not None:
            return None
        await quota.check_room(tx, desk.settings, values)
        now = await server_time(tx)
        kept = ("bucket", "object_name", "original_filename", "content_type", "expected_size", "policy",
                "declared_seconds")  # fmt: skip
        changes = {name: values[name] for name in kept} | {
            "video_id": values["video_id"] or locked["video_id"],
            "opened_at": now, "opened_count": locked["opened_count"] + 1, "updated_at": now, "looks": 0,
            "due_at": now + values["look_after"], "error_code": None, "error_message": None, "multipart_id": None,
        }  # fmt: skip
        step = Step(
            str(known["upload_id"]), DirectStatus.FAILED, DirectStatus.PENDING, by="uploads", trigger="opened_again",
            operator=values["user_name"], payload=store.announced({**locked, **changes}), changes=changes,
        )  # fmt: skip
        reopened = await move(tx, DIRECT_UPLOAD, step)
        failpoints.reach("direct.reopening")
        return reopened
