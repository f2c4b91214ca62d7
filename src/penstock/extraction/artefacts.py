"""What a task has left, for those who may see it: markdown, pages, pictures, the result."""

import msgspec

from penstock.extraction import store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.folder import Folder, Manifest
from penstock.extraction.queries import visible
from penstock.extraction.runstate import of_row
from penstock.extraction.states import Stage, TaskStatus
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller

_KINDS = {  # pictures are named by whoever stored them, who has looked at their first bytes
    "png": "image/png",
    "jpg": "image/jpeg",
    "gif": "image/gif",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "webp": "image/webp",
}


async def markdown(desk: EtlDesk, task_id: int, caller: Caller) -> bytes:
    folder, manifest = await _sealed(desk, task_id, caller)
    return await _bytes_of(folder, manifest.markdown_key, task_id)


async def page(desk: EtlDesk, task_id: int, number: int, caller: Caller) -> bytes:
    folder, manifest = await _sealed(desk, task_id, caller)
    for key, numbers in manifest.parts.items():
        if number in numbers:
            found = next(each for each in await folder.part(key) if each.number == number)
            return msgspec.json.encode(found)
    raise PenstockError(error_codes.PAGE_NOT_FOUND, page=number, pages=manifest.page_count)


async def image(desk: EtlDesk, task_id: int, name: str, caller: Caller) -> tuple[bytes, str]:
    """The bytes and what they are."""
    folder, manifest = await _sealed(desk, task_id, caller)
    key = folder.key(f"images/{name}")
    if key not in manifest.images:
        raise PenstockError(error_codes.NOT_FOUND, task_id=task_id, name=name)
    return await _bytes_of(folder, key, task_id), _KINDS.get(
        name.rpartition(".")[2].lower(), "application/octet-stream"
    )


async def result(desk: EtlDesk, task_id: int, caller: Caller) -> bytes:
    async with desk.database.transaction() as tx:
        row = visible(await store.find(tx, task_id), task_id, caller)
    if row["status"] != TaskStatus.COMPLETED:
        raise PenstockError(error_codes.ETL_NOT_READY, task_id=task_id, status=of_row(row).status)
    return await _bytes_of(Folder(desk.store, task_id, row["ocr_generation"]), row["result"]["output_s3_key"], task_id)


async def _sealed(desk: EtlDesk, task_id: int, caller: Caller) -> tuple[Folder, Manifest]:
    async with desk.database.transaction() as tx:
        row = visible(await store.find(tx, task_id), task_id, caller)
    folder = Folder(desk.store, task_id, row["ocr_generation"])
    manifest = await folder.manifest()
    if manifest is None:
        was_read = row["phase"] == Stage.POSTPROCESS
        code = error_codes.ETL_ARTEFACT_GONE if was_read else error_codes.ETL_NOT_READY
        raise PenstockError(code, task_id=task_id, status=of_row(row).status)
    return folder, manifest


async def _bytes_of(folder: Folder, key: str, task_id: int) -> bytes:
    try:
        return await folder.store.get(key)
    except PenstockError as missing:
        if missing.code is error_codes.NOT_FOUND:
            raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=task_id, key=key) from None
        raise
