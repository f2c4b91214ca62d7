"""Where the artefacts of one reading lie, and the notebook that a provider writes them through.

`etl/{task}/{generation}/` holds pages in parts, pictures, what a provider asked to remember, the markdown, and last the
manifest: whoever finds one need not read the document again. Names have the lease's token in them, so a worker that is
late writes beside its successor, never over it. Invariant: a page that was recognised is stored at once; pages
that were only read (a hundred in a second) are stored together, and a kill costs them two seconds of reading.
"""

import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec

from penstock.extraction.ports import Subject
from penstock.kernel import error_codes, failpoints, json
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import ObjectStore
from penstock.pdf.pages.furniture import RunningHeads, edges_of
from penstock.pdf.pages.model import Page

_PART_PAGES = 64
_PART_SECONDS = 2.0
_MEMO = "memo-"
_pages = msgspec.json.Decoder(list[Page])
_pages_out = msgspec.json.Encoder()


class Manifest(msgspec.Struct, frozen=True):
    """What a reading has left; written last."""

    markdown_key: str
    page_count: int
    parts: dict[str, list[int]]  # key → numbers of the pages in it
    images: list[str]
    provider: str
    provider_version: str
    provider_task_id: str
    metadata: dict[str, Any]
    warnings: dict[int, list[str]] = {}  # of pages that are to be looked at twice

    def told_warnings(self) -> list[dict[str, Any]]:
        """As results have them."""
        return [{"page": page, "warnings": said} for page, said in sorted(self.warnings.items())]


_manifest = msgspec.json.Decoder(Manifest)


class Folder:
    """The artefacts of one reading of one task."""

    def __init__(self, store: ObjectStore, task_id: int, generation: int) -> None:
        self.store = store
        self.root = f"etl/{task_id}/{generation}"
        self._last = ("", b"")  # the part that was packed last, and its key

    def key(self, name: str) -> str:
        return f"{self.root}/{name}"

    async def manifest(self) -> Manifest | None:
        try:
            return _manifest.decode(await self.store.get(self.key("manifest.json")))
        except PenstockError as missing:
            if missing.code is error_codes.NOT_FOUND:
                return None
            raise

    async def is_whole(self) -> bool:
        """Whether a later stage can go on from here: sealed, and with the markdown that the manifest names."""
        manifest = await self.manifest()
        try:
            return manifest is not None and bool(await self.store.head(manifest.markdown_key))
        except PenstockError as missing:
            if missing.code is error_codes.NOT_FOUND:
                return False
            raise

    async def seal(self, manifest: Manifest) -> Manifest:
        """The manifest that is there afterwards: of several readers the first has its way."""
        if await self.store.put_if_absent(self.key("manifest.json"), msgspec.json.encode(manifest)):
            return manifest
        return await self.manifest() or manifest

    def packed(self, key: str, pages: list[Page]) -> bytes:
        """What a part is stored as."""
        data = _pages_out.encode(pages)
        self._last = (key, data)
        return data

    async def part(self, key: str) -> list[Page]:
        name, data = self._last  # a short document has no other
        return _pages.decode(data if name == key else await self.store.get(key))

    async def listed(self, below: str) -> list[str]:
        return sorted([each.key async for each in self.store.list(self.key(below))])


async def remove_generations(store: ObjectStore, task_id: int, *, up_to: int) -> None:
    """All that a task has left until then. Manifests go first: whoever comes meanwhile is told that it is gone."""
    keys = [each.key async for each in store.list(f"etl/{task_id}")]
    old = [key for key in keys if _generation_of(key) <= up_to]
    for key in sorted(old, key=lambda key: not key.endswith("/manifest.json")):
        await store.delete(key)


def _generation_of(key: str) -> int:
    """Of etl/{task}/{generation}/… and etl/{task}/memo-{generation}/…"""
    said = key.split("/")[2].removeprefix(_MEMO)
    return int(said) if said.isdecimal() else 0


class StoredMemo:
    """Small JSON values of one task by key: what was paid for once is not asked for again after a crash."""

    def __init__(self, store: ObjectStore, subject: Subject) -> None:
        self._store = store
        self._root = f"etl/{subject.task_id}/{_MEMO}{subject.generation}"

    async def get(self, key: str) -> Any | None:
        try:
            return json.loads(await self._store.get(self._name(key)))
        except PenstockError as missing:
            if missing.code is error_codes.NOT_FOUND:
                return None
            raise

    async def put(self, key: str, value: Any) -> None:
        await self._store.put(self._name(key), json.dump_bytes(json.storable(value)))

    def _name(self, key: str) -> str:
        return f"{self._root}/{hashlib.sha256(key.encode()).hexdigest()}.json"


class StoredManuscript:
    """What a sealed reading says."""

    def __init__(self, folder: Folder, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self.markdown_key = manifest.markdown_key
        self.provider_task_id = manifest.provider_task_id
        self.page_count = manifest.page_count
        self.metadata: Mapping[str, Any] = manifest.metadata

    async def markdown(self) -> str:
        """ETL_ARTEFACT_GONE where somebody has cleared the store since."""
        try:
            return (await self._folder.store.get(self.markdown_key)).decode()
        except PenstockError as missing:
            if missing.code is error_codes.NOT_FOUND:
                raise PenstockError(error_codes.ETL_ARTEFACT_GONE, key=self.markdown_key) from None
            raise

    def pages(self) -> AsyncIterator[Page]:
        return pages_in_order(self._folder, self._manifest.parts)


async def pages_in_order(folder: Folder, parts: Mapping[str, list[int]]) -> AsyncIterator[Page]:
    """Pages of parts that may overlap and are roughly in order; only parts that are begun are in memory."""
    where: dict[int, str] = {}
    for key in sorted(parts):
        for number in parts[key]:
            where.setdefault(number, key)
    left = Counter(where.values())
    open_parts: dict[str, dict[int, Page]] = {}
    for number in sorted(where):
        key = where[number]
        if key not in open_parts:
            open_parts[key] = {page.number: page for page in await folder.part(key)}
        yield open_parts[key][number]
        left[key] -= 1
        if not left[key]:
            del open_parts[key]


class StoreNotebook:
    """The notebook of one attempt. `progress` is told on; the stage makes of it what people see."""

    def __init__(self, folder: Folder, token: int, tell: Any) -> None:
        self._folder = folder
        self.token = token
        self._tell = tell
        self._notes: dict[str, Any] = {}
        self._waiting: list[Page] = []
        self._since = 0.0
        self.parts: dict[str, list[int]] = {}
        self.earlier: dict[str, list[int]] = {}  # those of other attempts
        self.heads = RunningHeads()  # of the pages that this attempt added
        self.images: list[str] = []
        self.warnings: dict[int, list[str]] = {}

    async def open(self) -> None:
        """Find what earlier attempts stored."""
        for key in await self._folder.listed("pages"):
            pages = await self._folder.part(key)
            self.parts[key] = [page.number for page in pages]
            self._note_warnings(pages)
        self.earlier = dict(self.parts)
        self.images = await self._folder.listed("images")
        if notes := await self._folder.listed("notes"):  # the newest worker's; each began with those before it
            self._notes = json.loads(await self._folder.store.get(notes[-1]))

    @property
    def remembered(self) -> Mapping[str, Any]:
        return self._notes

    async def remember(self, **facts: Any) -> None:
        self._notes = {**self._notes, **facts}
        await self._folder.store.put(self._folder.key(f"notes/{self.token:08}.json"), json.dump_bytes(self._notes))
        failpoints.reach("etl.remembered")

    async def pages_done(self) -> frozenset[int]:
        return frozenset(number for numbers in self.parts.values() for number in numbers)

    async def add_page(self, page: Page) -> None:
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(page)
        self._note_warnings([page])
        self.heads.add(edges_of(page))
        is_old = time.monotonic() - self._since > _PART_SECONDS
        if page.ocr_share or is_old or len(self._waiting) >= _PART_PAGES:
            await self.flush()

    def _note_warnings(self, pages: Iterable[Page]) -> None:
        self.warnings |= {page.number: list(page.warnings) for page in pages if page.warnings}

    async def flush(self) -> None:
        if self._waiting:
            await self._folder.store.put_all(self.last_part())
            failpoints.reach("etl.pages_stored")

    def last_part(self) -> dict[str, bytes]:
        """What is not stored yet, by its key, for who stores it with something else."""
        if not self._waiting:
            return {}
        pages, self._waiting = self._waiting, []
        key = self._folder.key(f"pages/{self.token:08}-{pages[0].number:06}.json")
        self.parts[key] = [page.number for page in pages]
        return {key: self._folder.packed(key, pages)}

    async def add_image(self, name: str, data: bytes) -> str:
        return (await self.add_images({name: data}))[name]

    async def add_images(self, pictures: Mapping[str, bytes]) -> dict[str, str]:
        keys = {name: self._folder.key(f"images/{name}") for name in pictures}
        known = set(self.images)
        await self._folder.store.put_all({key: pictures[name] for name, key in keys.items() if key not in known})
        known = set(self.images)  # others may have stored the same meanwhile
        self.images += [key for key in keys.values() if key not in known]
        return keys

    async def progress(self, done: int, total: int) -> None:
        await self._tell(done, total)
