"""What a task has left, for those who may see it: markdown, pages, pictures, the result."""

import msgspec

from penstock.extraction import store
from penstock.extraction.desk import EtlDesk
from penstock.extraction.folder import Folder, Manifest
from penstock.extraction.media import HEAD, media_type_of
from penstock.extraction.queries import visible
from penstock.extraction.states import TaskStatus
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller


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
        raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=task_id, name=name)
    data = await _bytes_of(folder, key, task_id)
    return data, media_type_of(data[:HEAD], name)


async def result(desk: EtlDesk, task_id: int, caller: Caller) -> bytes:
    async with desk.database.transaction() as tx:
        row = visible(await store.find(tx, task_id), task_id, caller)
    if row["status"] != TaskStatus.COMPLETED:
        raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=task_id, status=row["status"])
    return await _bytes_of(Folder(desk.store, task_id, row["ocr_generation"]), row["result"]["output_s3_key"], task_id)


async def _sealed(desk: EtlDesk, task_id: int, caller: Caller) -> tuple[Folder, Manifest]:
    async with desk.database.transaction() as tx:
        row = visible(await store.find(tx, task_id), task_id, caller)
    folder = Folder(desk.store, task_id, row["ocr_generation"])
    manifest = await folder.manifest()
    if manifest is None:
        raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=task_id, status=row["status"])
    return folder, manifest


async def _bytes_of(folder: Folder, key: str, task_id: int) -> bytes:
    try:
        return await folder.store.get(key)
    except PenstockError as missing:
        if missing.code is error_codes.NOT_FOUND:
            raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=task_id, key=key) from None
        raise
