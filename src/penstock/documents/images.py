"""Pictures of pages: drawn once, in the sandbox, and kept beside the source."""

from contextlib import AsyncExitStack
from uuid import UUID

from penstock.documents import query_store
from penstock.documents.desk import Desk, folder_of
from penstock.kernel import error_codes
from penstock.kernel.errors import Kind, PenstockError
from penstock.pdf import PictureFormat

_ENDINGS = {PictureFormat.WEBP: "webp", PictureFormat.PNG: "png", PictureFormat.JPEG: "jpg"}


def image_key(job_id: UUID, page: int, dpi: int, picture_format: PictureFormat) -> str:
    return f"{folder_of(job_id)}/pages/{page}-{dpi}.{_ENDINGS[picture_format]}"


async def page_image(desk: Desk, job_id: UUID, page: int, dpi: int, picture_format: PictureFormat) -> bytes:
    """JOB_FILE_GONE when the source is not kept. A job has one drawing at a time."""
    key = image_key(job_id, page, dpi, picture_format)
    kept = await _kept(desk, key)
    if kept is not None:
        return kept
    async with desk.drawing.of(str(job_id)):
        kept = await _kept(desk, key)
        if kept is not None:  # drawn while we waited
            return kept
        source = await _source_of(desk, job_id)
        async with AsyncExitStack() as stack:
            try:
                path = await stack.enter_async_context(desk.store.on_disk(source))
            except PenstockError as missing:
                if missing.kind is not Kind.NOT_FOUND:
                    raise
                raise PenstockError(error_codes.JOB_FILE_GONE, job_id=str(job_id)) from None
            picture = await desk.examiner.render(path, page, dpi, picture_format)
        await desk.store.put(key, picture)
        await _unless_gone(desk, job_id, key)
        return picture


async def _kept(desk: Desk, key: str) -> bytes | None:
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
