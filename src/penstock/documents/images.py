"""Pictures of pages: drawn once, in the sandbox, and kept beside the source.

That a page cannot be drawn is kept too, as an object with the reason: asked for again, it costs nothing.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from uuid import UUID

import msgspec

from penstock.documents import query_store
from penstock.documents.desk import Desk, folder_of
from penstock.kernel import error_codes
from penstock.kernel.errors import Kind, PenstockError
from penstock.pdf import PictureFormat

_ENDINGS = {PictureFormat.WEBP: "webp", PictureFormat.PNG: "png", PictureFormat.JPEG: "jpg"}


@dataclass(frozen=True, slots=True)
class Drawing:
    """Which page of which job, how fine and as what."""

    job_id: UUID
    tenant: str  # the merchant whose job it is
    page: int
    dpi: int
    format: PictureFormat

    @property
    def key(self) -> str:
        return f"{folder_of(self.job_id)}/pages/{self.page}-{self.dpi}.{_ENDINGS[self.format]}"

    @property
    def failure_key(self) -> str:
        return f"{folder_of(self.job_id)}/pages/{self.page}-{self.dpi}.failed"


class _Failure(msgspec.Struct):
    """Why a page cannot be drawn."""

    code: str
    place: str
    reason: str

    def error(self) -> PenstockError:
        return PenstockError(error_codes.REGISTRY[self.code], place=self.place, reason=self.reason)


async def page_image(desk: Desk, drawing: Drawing) -> bytes:
    """The picture. JOB_FILE_GONE when the source is not kept; a page that cannot be drawn says why, every time."""
    kept = await _kept(desk, drawing)
    if kept is not None:
        return kept
    async with desk.drawing.of(drawing.key):
        kept = await _kept(desk, drawing)
        if kept is not None:  # drawn while we waited
            return kept
        key, picture = await _draw(desk, drawing)
        await desk.store.put(key, picture)
        await _unless_gone(desk, drawing.job_id, key)
    if key == drawing.failure_key:
        raise msgspec.json.decode(picture, type=_Failure).error()
    return picture


async def _draw(desk: Desk, drawing: Drawing) -> tuple[str, bytes]:
    """Draws the page; returns the key and the bytes to keep: the picture, or why there is none."""
    source = await _source_of(desk, drawing.job_id)
    async with AsyncExitStack() as stack:
        try:
            path = await stack.enter_async_context(desk.store.on_disk(source))
        except PenstockError as missing:
            if missing.kind is not Kind.NOT_FOUND:
                raise
            raise PenstockError(error_codes.JOB_FILE_GONE, job_id=str(drawing.job_id)) from None
        try:
            picture = await desk.examiner.render(path, drawing.page, drawing.dpi, drawing.format, tenant=drawing.tenant)
        except PenstockError as refusal:
            if refusal.kind is not Kind.INVALID:  # our own trouble: it may be drawn another time
                raise
            details = refusal.details
            failure = _Failure(refusal.code.code, str(details.get("place", "")), str(details.get("reason", "")))
            return drawing.failure_key, msgspec.json.encode(failure)
    return drawing.key, picture


async def _kept(desk: Desk, drawing: Drawing) -> bytes | None:
    picture = await _stored(desk, drawing.key)
    if picture is None and (failure := await _stored(desk, drawing.failure_key)) is not None:
        raise msgspec.json.decode(failure, type=_Failure).error()
    return picture


async def _stored(desk: Desk, key: str) -> bytes | None:
    try:
        return await desk.store.get(key)
    except PenstockError as missing:
        if missing.kind is not Kind.NOT_FOUND:
            raise
        return None


async def _source_of(desk: Desk, job_id: UUID) -> str:
    async with desk.database.transaction() as tx:
        job = await query_store.job(tx, job_id)
    if job is None or job["source_key"] is None:
        raise PenstockError(error_codes.JOB_FILE_GONE, job_id=str(job_id))
    key: str = job["source_key"]
    return key


async def _unless_gone(desk: Desk, job_id: UUID, key: str) -> None:
    """The job's folder may have been emptied while we drew."""
    try:
        await _source_of(desk, job_id)
    except PenstockError as gone:
        if gone.code is error_codes.JOB_FILE_GONE:
            await desk.store.delete(key)
