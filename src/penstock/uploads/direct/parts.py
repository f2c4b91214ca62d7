"""Uploads to a bucket that takes parts: which are there, where the next ones go, and the end.

The multipart upload's id is in the row, and is made when parts are first asked for. Killed between the bucket and the
row, the next who asks finds what was begun and goes on with it. Completing is ours: it puts the parts together unless
the object is there already, and has the object looked at, as any other whose notification never came.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.kernel import error_codes, failpoints
from penstock.kernel.db import server_time
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.statemachine import Step, move
from penstock.uploads.direct import parts_store, store
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.finishing import most_bytes
from penstock.uploads.direct.ports import Part, PartBucket, SignedStart
from penstock.uploads.direct.queries import get_upload
from penstock.uploads.direct.states import DIRECT_UPLOAD, DirectStatus

MOST_PARTS = 10_000  # S3's own limits
LEAST_BYTES = 5 * 1024**2  # of every part but the last
MOST_AT_ONCE = 100
_NEXT = 10
_TOLD = 100
_ROUND = 1024 * 1024
_TRIES = 3


@dataclass(frozen=True, slots=True)
class PartAddress:
    """Where one part goes: a PUT to `start.url`."""

    number: int
    start: SignedStart


@dataclass(frozen=True, slots=True)
class PartsOffer:
    """What is there and what may be sent next. `total` is None while the size is not known."""

    row: dict[str, Any]
    part_bytes: int
    total: int | None
    present: Sequence[Part]
    addresses: Sequence[PartAddress]


def part_bytes(desk: DirectDesk, row: dict[str, Any]) -> int | None:
    """The size of every part but the last; None: bytes go to this bucket in one session."""
    if not isinstance(desk.bucket, PartBucket):
        return None
    least: int = -(-row["expected_size"] // MOST_PARTS)
    return max(desk.bucket.part_bytes, -(-least // _ROUND) * _ROUND)


async def next_parts(desk: DirectDesk, caller: Caller, upload_id: str, numbers: list[int] | None) -> PartsOffer:
    """Addresses for these parts, or for the next ones that are missing. A part may be sent again."""
    bucket, row = await _open_row(desk, caller, upload_id)
    size = part_bytes(desk, row) or bucket.part_bytes
    total = -(-row["expected_size"] // size) or None
    if row["status"] == DirectStatus.COMPLETED:
        return PartsOffer(row, size, total, (), ())
    _check(numbers, total or _most_parts(desk, row, size))
    for _ in range(_TRIES):
        row, multipart_id = await _session(desk, bucket, row)
        present = await bucket.parts(row["object_name"], multipart_id)
        if present is not None:
            wanted = numbers or _missing(present, total, total or _most_parts(desk, row, size))
            return PartsOffer(row, size, total, present, [await _address(bucket, row, each, size) for each in wanted])
        if await bucket.find(row["object_name"]) is not None:
            return PartsOffer(await _look_now(desk, row), size, total, (), ())
        row = await _forget_session(desk, row)
    raise PenstockError(error_codes.STATE_CHANGED, entity="direct_upload", upload_id=str(row["upload_id"]))


async def complete(desk: DirectDesk, caller: Caller, upload_id: str) -> dict[str, Any]:
    """All parts are sent: they become the object, which is then checked by a worker. Asked again, it ends the same."""
    bucket, row = await _open_row(desk, caller, upload_id)
    if row["status"] == DirectStatus.COMPLETED:
        return row
    name, multipart_id = row["object_name"], row["multipart_id"]
    present = await bucket.parts(name, multipart_id) if multipart_id else None
    if present is None:
        return await _completed_before(desk, bucket, row)
    whole = _that_count(desk, row, present)
    if not row["expected_size"] and sum(part.size for part in whole) > most_bytes(desk.settings, row):
        await bucket.abort_parts(name, multipart_id)
        raise PenstockError(error_codes.FILE_SIZE_EXCEEDED, largest=most_bytes(desk.settings, row))
    _check_whole(desk, row, whole)
    failpoints.reach("direct.parts_completing")
    try:
        await bucket.complete_parts(name, multipart_id, whole)
    except PenstockError as refused:
        if refused.code is error_codes.NOT_FOUND:  # somebody else completed or aborted it meanwhile
            return await _completed_before(desk, bucket, row)
        if refused.code is not error_codes.DIRECT_OBJECT_EXISTS:
            raise
        await bucket.abort_parts(name, multipart_id)  # what is there counts, if it is right
    failpoints.reach("direct.parts_completed")
    return await _look_now(desk, row)


async def let_go(desk: DirectDesk, row: dict[str, Any]) -> None:
    """Before an upload is given up: parts that nobody puts together would be kept and paid for, for ever."""
    try:
        bucket = desk.bucket_of(row["bucket"])
        if isinstance(bucket, PartBucket):
            await bucket.abort_all_parts(row["object_name"])
    except PenstockError as away:  # of a bucket that is in use no more, it is not waited for
        if not desk.is_lost(row["bucket"], away):
            raise


async def _open_row(desk: DirectDesk, caller: Caller, upload_id: str) -> tuple[PartBucket, dict[str, Any]]:
    bucket = desk.open_bucket()
    if not isinstance(bucket, PartBucket):
        raise PenstockError(error_codes.DIRECT_NO_PARTS)
    async with desk.database.transaction() as tx:
        row = await get_upload(tx, caller, upload_id)
    if row["status"] == DirectStatus.FAILED or row["bucket"] != bucket.name:
        raise PenstockError(error_codes.SESSION_EXPIRED, upload_id=upload_id, error_code=row["error_code"])
    return bucket, row


async def _address(bucket: PartBucket, row: dict[str, Any], number: int, size: int) -> PartAddress:
    """Where one part goes. Its size is signed if the phone has announced how large the whole is."""
    expected = row["expected_size"]
    own = min(size, expected - (number - 1) * size) if expected else None
    return PartAddress(number, await bucket.sign_part(row["object_name"], row["multipart_id"], number, own))


def _most_parts(desk: DirectDesk, row: dict[str, Any], size: int) -> int:
    """Of an upload whose size nobody has announced."""
    return min(MOST_PARTS, max(1, -(-most_bytes(desk.settings, row) // size)))


def _check(numbers: list[int] | None, most: int) -> None:
    if numbers is not None and (len(numbers) > MOST_AT_ONCE or not all(1 <= each <= most for each in numbers)):
        said = f"at most {MOST_AT_ONCE} numbers, each from 1 to {most}"
        raise PenstockError(error_codes.REQUEST_INVALID, fields={"numbers": said})


async def _session(desk: DirectDesk, bucket: PartBucket, row: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The row's multipart upload, begun if there is none. Of several who begin at once the first counts."""
    if row["multipart_id"] is not None:
        return row, row["multipart_id"]
    begun = await bucket.begin_parts(row["object_name"], row["content_type"])
    failpoints.reach("direct.parts_begun")
    noted = await _note_session(desk, row, begun)
    if noted["multipart_id"] != begun:
        await bucket.abort_parts(row["object_name"], begun)
    if noted["status"] != DirectStatus.UPLOADING or noted["multipart_id"] is None:
        raise PenstockError(error_codes.STATE_CHANGED, entity="direct_upload", status=noted["status"])
    return noted, noted["multipart_id"]


async def _note_session(desk: DirectDesk, row: dict[str, Any], begun: str) -> dict[str, Any]:
    """The row as it is then, whoever wrote it."""
    async with desk.database.transaction() as tx:
        locked = await store.lock(tx, row["upload_id"])
        if locked is None:
            raise PenstockError(error_codes.UPLOAD_NOT_FOUND, upload_id=str(row["upload_id"]))
        if locked["status"] == DirectStatus.UPLOADING:
            return await parts_store.change_session(tx, row["upload_id"], None, begun) or locked
        if locked["status"] != DirectStatus.PENDING:
            return locked
        step = Step(
            str(row["upload_id"]), DirectStatus.PENDING, DirectStatus.UPLOADING, by="uploads", trigger="parts_asked",
            operator=row["user_name"], payload=store.announced(locked),
            changes={"multipart_id": begun, "updated_at": await server_time(tx)},
        )  # fmt: skip
        return await move(tx, DIRECT_UPLOAD, step)


async def _forget_session(desk: DirectDesk, row: dict[str, Any]) -> dict[str, Any]:
    """The bucket knows it no more: aborted by a rule of the bucket, or by us when hope was given up."""
    async with desk.database.transaction() as tx:
        forgotten = await parts_store.change_session(tx, row["upload_id"], row["multipart_id"], None)
        return forgotten or await store.find(tx, row["upload_id"]) or row


async def _look_now(desk: DirectDesk, row: dict[str, Any]) -> dict[str, Any]:
    async with desk.database.transaction() as tx:
        known = await parts_store.look_now(tx, row["upload_id"]) or await store.find(tx, row["upload_id"]) or row
    await desk.wake()
    return known


async def _completed_before(desk: DirectDesk, bucket: PartBucket, row: dict[str, Any]) -> dict[str, Any]:
    """There is no multipart upload: it has become the object, or nothing was ever sent."""
    if await bucket.find(row["object_name"]) is not None:
        return await _look_now(desk, row)
    raise PenstockError(error_codes.DIRECT_PARTS_MISSING, upload_id=str(row["upload_id"]), received=0, missing=[1])


def _that_count(desk: DirectDesk, row: dict[str, Any], present: Sequence[Part]) -> Sequence[Part]:
    """All, unless they are too much: some may be left behind the last one, from when parts were smaller."""
    expected, size = row["expected_size"], part_bytes(desk, row)
    if not expected or not size or sum(part.size for part in present) <= expected:
        return present
    return [part for part in present if part.number <= -(-expected // size)]


def _check_whole(desk: DirectDesk, row: dict[str, Any], present: Sequence[Part]) -> None:
    received, expected = sum(part.size for part in present), row["expected_size"]
    holes = _absent(present, range(1, max((part.number for part in present), default=1) + 1))
    small = [part.number for part in present[:-1] if part.size < LEAST_BYTES]
    if not holes and not small and received == (expected or received):
        return
    if expected and received > expected:
        raise PenstockError(error_codes.SIZE_MISMATCH, upload_id=str(row["upload_id"]), received=received)
    size = part_bytes(desk, row) or 1
    rest = _absent(present, range(1, -(-expected // size) + 1)) or [part.number for part in present if part.size < size]
    raise PenstockError(
        error_codes.DIRECT_PARTS_MISSING, upload_id=str(row["upload_id"]), received=received,
        expected=expected or None, missing=(holes or small or rest)[:_TOLD],
    )  # fmt: skip


def _missing(present: Sequence[Part], total: int | None, most: int) -> list[int]:
    """The next ones, in order; where the size is not known there may be more, up to what is taken of its type."""
    last = total or min(most, max((part.number for part in present), default=0) + _NEXT)
    return _absent(present, range(1, last + 1))[:_NEXT]


def _absent(present: Sequence[Part], wanted: Iterable[int]) -> list[int]:
    there = {part.number for part in present}
    return [number for number in wanted if number not in there]
