"""A video's file has come: the file itself is asked how long it is and what it is, and the phone's word counts little.

Strangers' bytes are read in the sandbox only. What a file does there is a verdict on the file; what happens to the
sandbox or the bucket is not, and raises, so that the caller comes again. A repeat finds the verdict and does nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from penstock.kernel import error_codes
from penstock.kernel.db import Database, Tx, server_time
from penstock.kernel.errors import ErrorCode, PenstockError
from penstock.kernel.failpoints import reach
from penstock.kernel.sandbox import Limits, Outcome, Sandbox
from penstock.kernel.statemachine import Step, move
from penstock.uploads.direct import store
from penstock.uploads.direct.fetching import fetched
from penstock.uploads.direct.film import Film
from penstock.uploads.direct.finishing import policy_of
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.direct.settings import DirectSettings
from penstock.uploads.direct.states import VIDEO, VideoStatus

log = structlog.get_logger(__name__)
_MiB = 1 << 20
LIMITS = Limits(memory=512 * _MiB, cpu_seconds=20, wall_seconds=80, open_files=8, result_bytes=4096)
_OURS = frozenset({"ImportError", "ModuleNotFoundError", "OSError", "PermissionError"})  # no file can cause these
# MP4 came of QuickTime, and phones mix up their names: either may be called by the other's.
_CONTAINERS = {
    "video/mp4": {"mp4", "quicktime"},
    "video/x-m4v": {"mp4", "quicktime"},
    "video/quicktime": {"mp4", "quicktime"},
    "video/3gpp": {"mp4", "quicktime"},
    "video/webm": {"webm"},
    "video/x-matroska": {"matroska", "webm"},
    "video/x-msvideo": {"avi"},
    "video/mp2t": {"mpegts"},
}


@dataclass(frozen=True, slots=True)
class ProbeRoom:
    """Where videos are looked at. `directory` is that of uploads, which is swept."""

    database: Database
    bucket: Bucket
    settings: DirectSettings
    sandbox: Sandbox
    directory: Path
    limits: Limits = LIMITS


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a file cannot be the video."""

    code: ErrorCode
    reason: str
    film: Film | None = None


async def become_video(room: ProbeRoom, row: Mapping[str, Any]) -> None:
    """For a completed upload. Raises only what may be better another time."""
    async with room.database.transaction() as tx:
        video = await store.find_video(tx, row["video_id"]) if row["video_id"] else None
    if video is None or not _is_open(video):
        return
    found = await _look(room, row)
    reach("direct.probed")
    async with room.database.transaction() as tx:
        await _settle(tx, row, found)


async def _look(room: ProbeRoom, row: Mapping[str, Any]) -> Film | _Refusal:
    try:
        async with fetched(room.bucket, row, room.directory) as path:
            found = await _probe(room, path, row["merchant_id"])
    except PenstockError as failure:
        if failure.code is not error_codes.NOT_FOUND:
            raise
        return _Refusal(error_codes.VIDEO_UNREADABLE, "the bucket does not have it any more")
    return found if isinstance(found, _Refusal) else _judged(found, row, room.settings)


async def _probe(room: ProbeRoom, path: Path, tenant: str) -> Film | _Refusal:
    """What the file is. SANDBOX_UNAVAILABLE when that was not the file's fault."""
    memory = min(room.limits.memory, room.sandbox.limits.memory)  # the pool's owner may allow less
    outcome = await room.sandbox.call(
        "penstock.uploads.direct.film:read_film",
        files=[path], limits=replace(room.limits, memory=memory), tenant=tenant, returns=Film,
    )  # fmt: skip
    if outcome.value is not None:
        return outcome.value
    log.info("direct.probe_ended_badly", ending=outcome.ending, error=outcome.error, message=outcome.message)
    if _is_ours(outcome):
        raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=f"{outcome.ending}: {outcome.message}"[:200])
    if outcome.error == "FilmUnreadable":
        return _Refusal(error_codes.VIDEO_UNREADABLE, outcome.message)
    return _Refusal(error_codes.VIDEO_UNREADABLE, f"reading it ended badly ({outcome.ending})")


def _is_ours(outcome: Outcome[Any]) -> bool:
    """Whether the machine is to blame: killed from outside, slow for want of CPU or disk, or a library is missing."""
    return not outcome.is_verdict or outcome.error in _OURS


def _judged(film: Film, row: Mapping[str, Any], settings: DirectSettings) -> Film | _Refusal:
    said = row["content_type"]
    if film.container not in _CONTAINERS.get(said, {film.container}):
        return _Refusal(error_codes.VIDEO_UNREADABLE, f"it was announced as {said} and is {film.container}", film)
    policy = policy_of(settings, row)
    longest = policy.longest_seconds if policy else None
    # In whole seconds, as phones announce them: who stops recording at the limit has a few frames more.
    if longest is not None and int(film.seconds) > longest:
        return _Refusal(error_codes.VIDEO_TOO_LONG, f"{film.seconds:.1f} s, {longest} s allowed", film)
    return film


def _is_open(video: Mapping[str, Any]) -> bool:
    """Nobody has judged it yet."""
    return video["duration_seconds"] is None and video["status"] != VideoStatus.FAILED


async def _settle(tx: Tx, row: Mapping[str, Any], found: Film | _Refusal) -> None:
    video = await store.lock_video(tx, row["video_id"])
    if video is None or not _is_open(video):
        return
    film = found.film if isinstance(found, _Refusal) else found
    if film is not None:
        await store.note_film(tx, row["video_id"], film.seconds, film.container)
    if isinstance(found, _Refusal):
        await _refuse(tx, video, found)
    else:
        log.info("direct.video_probed", video=str(row["video_id"]), container=found.container, seconds=found.seconds)


async def _refuse(tx: Tx, video: Mapping[str, Any], refusal: _Refusal) -> None:
    video_id, source, code = str(video["video_id"]), VideoStatus(video["status"]), refusal.code
    log.warning("direct.video_refused", video=video_id, code=code.code, reason=refusal.reason)
    if VIDEO.find(source, VideoStatus.FAILED) is None:  # the pipeline was quicker and has shown it: too late
        return
    message = f"{code.message.en}: {refusal.reason}"
    step = Step(
        video_id, source, VideoStatus.FAILED, by="probe", trigger="probed", order_key=f"video:{video_id}",
        payload={"video_id": video_id, "error_code": code.code, "reason": refusal.reason},
        changes={"error_code": code.code, "error_message": message, "updated_at": await server_time(tx)},
    )  # fmt: skip
    await move(tx, VIDEO, step)
