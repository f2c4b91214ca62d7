"""`penstock etl` carried out: the file is copied and hashed, inspected, read page by page, and made JSON of.

Everything on the way is in a temporary directory. What people get is placed at the end, at once: pictures, markdown,
pages, and the JSON last. When only the JSON cannot be made, the markdown is kept: reading it was the dear part.
"""

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from penstock.cli.etl.makers import maker_for
from penstock.cli.etl.outputs import FORMAT, Outputs, Placing, refused_as
from penstock.cli.etl.rule_choice import caller_of, is_number, numbered_rule, read_rule
from penstock.cli.etl.views import View
from penstock.cli.screen import Refusal, be_quiet, printable
from penstock.kernel import error_codes, json
from penstock.kernel.errors import PenstockError
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.extraction.at_once import ReadHere
    from penstock.extraction.folder import Folder
    from penstock.extraction.ports import Document, PostProcessor, Rule
    from penstock.extraction.rule_sandbox import RuleSandbox
    from penstock.pdf import Examiner, PageReader
    from penstock.pdf.pages.model import Page

_MiB = 1 << 20
_PIECE = 4 * _MiB
# Lists of numbers, or of names without blanks. No text of JSON holds a line's end.
_SHORT_LIST = re.compile(r'\[\n(?:\s+(?:-?[0-9][0-9.eE+-]*|"\w{1,16}"),?\n)+\s+\]')


@dataclass(frozen=True, slots=True)
class Wish:
    """What the options say."""

    file: Path
    rule: str | None
    outputs: Outputs
    merchant: str
    data: Path | None


class NoJson(Exception):
    """The document was read and its markdown written; no JSON could be made of it."""

    def __init__(self, failure: PenstockError, markdown: Path) -> None:
        super().__init__(str(failure))
        self.failure, self.markdown = failure, markdown


async def carry_out(wish: Wish, view: View) -> dict[str, Any]:
    """The JSON that was written."""
    be_quiet()
    async with AsyncExitStack() as stack:
        rule = await _rule(wish)
        with refused_as(Path(tempfile.gettempdir())):
            made = tempfile.TemporaryDirectory(prefix="penstock-etl-", ignore_cleanup_errors=True)
        work = Path(stack.enter_context(made))
        document = copied(wish.file, work / "document")
        examiner, reader = await stack.enter_async_context(_readers())
        maker = await stack.enter_async_context(maker_for(rule, wish.data, reader.page_count))
        with view:
            if document.media_type == "application/pdf":
                stack.push_async_callback(examiner.sandbox.close)
                await examiner.sandbox.start()
            read = await _read(document, work, (examiner, reader), view)
            return await _make(wish, rule, (read, document), maker, view)


async def _rule(wish: Wish) -> "Rule":
    from penstock.cli.harvest.files import open_database
    from penstock.extraction.rule_content import BUILT_IN

    caller = caller_of(wish.merchant)
    if wish.rule is None:
        return BUILT_IN
    if not is_number(wish.rule):
        return read_rule(wish.rule)
    async with open_database(wish.data) as database:
        return await numbered_rule(database, wish.rule, caller)


def copied(source: Path, target: Path) -> "Document":
    """What is inspected is what is read, whatever happens to the file meanwhile."""
    from penstock.extraction.media import HEAD, media_type_of
    from penstock.extraction.ports import Document
    from penstock.extraction.settings import EtlSettings

    most = SettingsFile.find().load(EtlSettings).max_file_mb * _MiB
    digest, size, media_type = hashlib.sha256(), 0, ""
    try:
        with source.open("rb") as file, refused_as(target), target.open("wb") as copy:
            while piece := file.read(_PIECE):
                media_type = media_type or media_type_of(piece[:HEAD], source.name)
                size += len(piece)
                if size > most:
                    raise PenstockError(error_codes.ETL_FILE_TOO_LARGE, largest=f"{most // _MiB} MiB")
                digest.update(piece)
                copy.write(piece)
    except OSError as failure:
        said, shown = failure.strerror or str(failure), printable(str(source))
        raise Refusal(f"{shown} cannot be read: {said}.", f"无法读取 {shown}：{said}。") from failure
    if not size:
        shown = printable(str(source))
        raise Refusal(f"{shown} is empty.", f"{shown} 是空文件。")
    return Document(target, source.name, media_type, size, digest.hexdigest())


@asynccontextmanager
async def _readers() -> "AsyncIterator[tuple[Examiner, PageReader]]":
    """No process runs yet: what is wrong with the rule is told first."""
    from penstock.kernel.sandbox import SandboxSettings
    from penstock.pdf import Examiner, OcrSettings, PageReader, PdfSettings, pdf_sandbox

    source = SettingsFile.find()
    pdf, sandboxes = source.load(PdfSettings), source.load(SandboxSettings)
    sandbox = pdf_sandbox(pdf, sandboxes, reads_pages=True)
    async with PageReader(sandbox, pdf, source.load(OcrSettings), sandboxes) as reader:
        yield Examiner(sandbox, pdf), reader


async def _read(document: "Document", work: Path, readers: "tuple[Examiner, PageReader]", view: View) -> "ReadHere":
    from penstock.extraction.at_once import read_here
    from penstock.extraction.folder import Folder
    from penstock.extraction.providers.local import LocalProvider
    from penstock.kernel.objectstores.local import LocalStore

    examiner, reader = readers
    with refused_as(work):
        store = LocalStore(work / "store")
    return await read_here(document, Folder(store, 0, 1), examiner, LocalProvider(reader), view.read)


async def _make(
    wish: Wish,
    rule: "Rule",
    read_document: "tuple[ReadHere, Document]",
    maker: "tuple[PostProcessor, RuleSandbox]",
    view: View,
) -> dict[str, Any]:
    from penstock.extraction.at_once import make_here, told

    read, document = read_document
    outputs = wish.outputs
    with Placing() as placing:
        await _place_readings(read, outputs, placing)
        try:
            extract = await make_here(read, rule, maker, wish.merchant, view.made)
        except PenstockError as failure:
            placing.outdate(outputs.json)
            placing.place()
            raise NoJson(failure, outputs.markdown) from failure
        result: dict[str, Any] = {
            "format": FORMAT,
            "source": {
                "filename": document.filename, "media_type": document.media_type, "size": document.size,
                "sha256": document.sha256,
            },
            "markdown": outputs.markdown.name,
            "images": [_link(key, outputs) for key in read.manifest.images],
            **told(read, rule, extract),
        }  # fmt: skip
        result = json.storable(result)
        _write(placing, outputs.json, as_text(result).encode())
        placing.place()
    return result


async def _place_readings(read: "ReadHere", outputs: Outputs, placing: Placing) -> None:
    folder, manifest = read.folder, read.manifest
    if manifest.images:
        await _copy_images(folder, manifest.images, placing.file(outputs.images))
    elif outputs.images.exists():
        placing.outdate(outputs.images)
    markdown = (await read.manuscript.markdown()).replace(
        f"]({folder.key('images')}/", f"]({quote(outputs.images.name)}/"
    )
    _write(placing, outputs.markdown, markdown.encode())
    if outputs.pages is not None:
        target = placing.file(outputs.pages)
        with refused_as(outputs.pages):
            await _write_pages(read, outputs, target)


async def _copy_images(folder: "Folder", keys: list[str], into: Path) -> None:
    await asyncio.to_thread(_make_directory, into)
    for key in keys:
        data = await folder.store.get(key)
        with refused_as(into):
            (into / key.rpartition("/")[2]).write_bytes(data)


def _make_directory(path: Path) -> None:
    with refused_as(path):
        path.mkdir()


async def _write_pages(read: "ReadHere", outputs: Outputs, target: Path) -> None:
    """An array with a page on each line; one page is in memory."""
    with target.open("wb") as file:
        before = b"[\n"
        async for page in read.manuscript.pages():
            file.write(before + _encoded(page, outputs))
            before = b",\n"
        file.write(b"\n]\n")


def _encoded(page: "Page", outputs: Outputs) -> bytes:
    for image in page.images:
        image.key = _link(image.key, outputs) if image.key else None
    return msgspec.json.encode(page)


def _link(key: str, outputs: Outputs) -> str:
    """As seen from beside the markdown."""
    return f"{outputs.images.name}/{key.rpartition('/')[2]}"


def as_text(result: Any) -> str:
    """For people too: indented, but a short list, such as a box, in one line."""
    indented = msgspec.json.format(json.dump_bytes(result), indent=2).decode()
    return (
        _SHORT_LIST.sub(lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), indented)
        + "\n"
    )


def _write(placing: Placing, target: Path, data: bytes) -> None:
    temporary = placing.file(target)
    with refused_as(target):
        temporary.write_bytes(data)
