"""The two stages of a task, each from claim to outcome.

OCR: the file is fetched, looked at in the sandbox, read by the provider page by page, and sealed with a manifest.
Whoever finds a manifest goes on from there, so a document is never read twice for one set of artefacts, whatever dies.
Post-process: what was read becomes JSON by the task's own copy of its rule, is checked against the schema once more,
stored, and the task is completed. No transaction is open while either works.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from penstock.extraction import settling
from penstock.extraction.folder import Folder, Manifest, StoredManuscript, StoreNotebook, pages_in_order
from penstock.extraction.holding import Held, claim
from penstock.extraction.metrics import STAGE_SECONDS
from penstock.extraction.ports import Document, Extract, OCRProvider, Place, Reading, Subject
from penstock.extraction.result_check import SKIP, check_result
from penstock.extraction.states import Stage
from penstock.extraction.workshop import Inspector, Workshop
from penstock.kernel import error_codes, failpoints, json
from penstock.kernel.disk import sha256_of
from penstock.kernel.errors import PenstockError, raise_unless_unavailable, reason_of
from penstock.kernel.telemetry import Masker
from penstock.pdf.pages.furniture import edges_of
from penstock.pdf.pages.markdown import stream_markdown

log = structlog.get_logger(__name__)
_masker = Masker()  # a stranger's exception may hold addresses and keys, and people see it

_UNTIL_IT_IS_BACK = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
_QUICKLY_HASHED = 256 << 10  # bytes: sooner done than handed to a thread
_LONGEST_ID = 1000  # letters of a task's name elsewhere
_NOT_OURS = (error_codes.LEASE_LOST, error_codes.STATE_CHANGED)


async def run_stage(shop: Workshop, stage: Stage, task_id: int) -> bool:
    """What an ARQ job does. False: there was nothing to do for us."""
    failpoints.reach(f"etl.{stage}_taken")
    held = await claim(shop.desk, task_id, stage, shop.owner)
    if held is None:
        return False
    failpoints.reach(f"etl.{stage}_claimed")
    work = _ocr if stage is Stage.OCR else _postprocess
    try:
        with STAGE_SECONDS.labels(stage).time():
            await held.keeping(lambda: work(shop, held))
    except PenstockError as failure:
        await _settle_failure(held, failure)
    except asyncio.CancelledError:
        await _hand_back(held)
        raise
    except Exception as failure:  # a fault of ours, or of a provider: the task's, not the worker's
        log.exception("etl.stumbled", task=task_id, stage=stage)
        await _settle_failure(held, PenstockError(error_codes.INTERNAL_ERROR, reason=_masker.text(reason_of(failure))))
    return True


async def _settle_failure(held: Held, failure: PenstockError) -> None:
    """A database that was away is no fault of the document: that counts neither as an attempt nor as a lost worker."""
    late = failure
    if failure.code not in (*_NOT_OURS, error_codes.DB_UNAVAILABLE):
        try:
            return await settling.fail(held, failure)
        except PenstockError as too_late:
            late = too_late
    if late.code in _NOT_OURS:
        log.info("etl.taken_away", task=held.task_id, stage=held.stage)
        return None
    raise_unless_unavailable(late)
    return await _hand_back(held, _UNTIL_IT_IS_BACK)


async def _hand_back(held: Held, pauses: Sequence[float] = ()) -> None:
    """Another goes on at once. It is tried once more after each pause; then the lease runs out."""
    for pause in (*pauses, None):
        try:
            return await settling.give_back(held)
        except PenstockError as away:
            if pause is None:
                log.info("etl.not_handed_back", task=held.task_id, reason=str(away))
                return None
        await asyncio.sleep(pause)
    return None


# Reading -----------------------------------------------------------------------------------------------------------
async def _ocr(shop: Workshop, held: Held) -> None:
    folder = Folder(shop.desk.store, held.task_id, held.row["ocr_generation"])
    manifest = await folder.manifest() if held.is_continued else None
    if manifest is None:
        manifest = await _read(shop, held, folder)
    failpoints.reach("etl.sealed")
    shop.keep(folder, manifest)
    await settling.advance(held, manifest)


async def _read(shop: Workshop, held: Held, folder: Folder) -> Manifest:
    row = held.row
    provider = shop.provider(row["provider"])
    notebook = StoreNotebook(folder, held.lease.token, held.tell)
    if held.is_continued:
        await notebook.open()
    try:
        async with shop.desk.store.on_disk(row["source_key"], shop.desk.settings.cache_dir) as path:
            count = await inspect_first(shop.inspector, row["media_type"], path, tenant=row["merchant_id"])
            is_small = row["size_bytes"] <= _QUICKLY_HASHED
            digest = sha256_of(path) if is_small else await asyncio.to_thread(sha256_of, path)
            facts = (row["filename"], row["media_type"], row["size_bytes"], digest, count, row["merchant_id"])
            document = Document(path, *facts)
            reading = await provider.read(document, notebook)
    except PenstockError as missing:
        if missing.code is error_codes.NOT_FOUND and missing.details.get("key") == row["source_key"]:
            raise PenstockError(error_codes.ETL_SOURCE_NOT_FOUND, object_key=row["source_key"]) from None
        raise
    failpoints.reach("etl.read")
    return await seal(folder, notebook, provider, reading)


async def inspect_first(inspector: Inspector, media_type: str, path: Path, *, tenant: str = "") -> int | None:
    """A PDF that must not be opened is refused with all reasons. The number of pages, where it is known by now."""
    if media_type != "application/pdf":
        return None
    seen = await inspector.inspect(path, tenant=tenant)
    if seen.issues:
        found = [{"code": each.code, "place": each.place, "detail": each.detail} for each in seen.issues]
        raise PenstockError(error_codes.REGISTRY[seen.issues[0].code], issues=found)
    return seen.readable_pages or None


async def seal(folder: Folder, notebook: StoreNotebook, provider: OCRProvider, reading: Reading) -> Manifest:
    """The last pages and the markdown are stored together; when they are safe, the manifest."""
    last = notebook.last_part()
    markdown = reading.markdown
    if markdown is None:
        markdown = await _written(folder, notebook)
    key = folder.key(f"document-{notebook.token:08}.md")
    await folder.store.put_all(last | {key: markdown.encode(errors="replace")})
    if last:
        failpoints.reach("etl.pages_stored")
    failpoints.reach("etl.markdown_stored")
    metadata = json.storable(dict(reading.metadata) | {"pages": reading.page_count, "version": provider.version})
    manifest = Manifest(
        key, reading.page_count, notebook.parts, notebook.images, provider.name, provider.version,
        json.storable(reading.provider_task_id[:_LONGEST_ID]), metadata, notebook.warnings,
    )  # fmt: skip
    return await folder.seal(manifest)


async def _written(folder: Folder, notebook: StoreNotebook) -> str:
    """From the stored pages; what repeats at their edges was seen as they came, or is of an earlier attempt."""
    heads = notebook.heads
    async for page in pages_in_order(folder, notebook.earlier):
        heads.add(edges_of(page))
    return "".join([piece async for piece in stream_markdown(pages_in_order(folder, notebook.parts), heads)])


# Making JSON -------------------------------------------------------------------------------------------------------
async def _postprocess(shop: Workshop, held: Held) -> None:
    row = held.row
    folder = Folder(shop.desk.store, held.task_id, row["ocr_generation"])
    manifest = shop.kept(folder) or await folder.manifest()
    if manifest is None:
        raise PenstockError(error_codes.ETL_ARTEFACT_GONE, task_id=held.task_id)
    rule = await shop.rule_of(row["rule"])
    processor = shop.processor(rule.postprocess_mode)
    subject = Subject(held.task_id, row["merchant_id"], row["generation"])
    extract = await processor.process(rule, StoredManuscript(folder, manifest), subject, held.tell)
    failpoints.reach("etl.processed")
    await check_result(shop.sandbox, rule, extract, row["merchant_id"])
    result = await _store_result(held, folder, manifest, extract)
    failpoints.reach("etl.result_stored")
    await settling.complete(held, result, {"postprocess": dict(extract.metadata)})


async def _store_result(held: Held, folder: Folder, manifest: Manifest, extract: Extract) -> dict[str, Any]:
    result: dict[str, Any] = settling.pointers(manifest)
    result |= {"metadata": dict(manifest.metadata), "warnings": manifest.told_warnings()}
    if held.row["rule"]["postprocess_mode"] != SKIP:
        result |= {"data": extract.data, "provenance": told_places(extract.places)}
    key = folder.key(f"result-{held.row['generation']}-{held.lease.token:08}.json")
    await folder.store.put(key, json.dumps_storable(result).encode())
    return result | {"output_s3_key": key}


def told_places(places: Mapping[str, Any]) -> dict[str, Any]:
    def one(place: Place) -> dict[str, Any]:
        box = place.box
        return {
            "page": place.page, "box": [box.x0, box.y0, box.x1, box.y1], "spans": list(place.spans), "text": place.text
        }  # fmt: skip

    return {pointer: [one(place) for place in found] for pointer, found in places.items()}
