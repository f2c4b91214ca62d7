"""Reads documents page by page: text where the file has it, recognised where it has not, tables and blocks on all.

The text pass runs in the PDF pool, in slices; pages that need it go on to the recognisers, which are started when the
first is found. Both passes run at once, every queue between them is short, and no page is kept: memory does not grow
with the number of pages. PDFs must have passed the inspection. A page that cannot be read, or is reached when the
document has used up its time, comes with a warning; a document of which no page can be read is refused.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Ending, Limits, Outcome, Sandbox, SandboxSettings
from penstock.pdf import codes
from penstock.pdf.examine import WALL_FACTOR, issue_of
from penstock.pdf.ocr.found import Picture
from penstock.pdf.ocr.pool import ocr_sandbox
from penstock.pdf.ocr.settings import OcrSettings
from penstock.pdf.pages.images import ImageBytes, is_speck
from penstock.pdf.pages.model import Page
from penstock.pdf.run import ReadPage, Run, TimedCalls, picture_refused, unreadable_page
from penstock.pdf.settings import PdfSettings
from penstock.pdf.steps import PICTURES_MISSING, UNREADABLE, Step, is_sound, with_told_before

log = structlog.get_logger(__name__)

PDF = "application/pdf"
PICTURES = frozenset({"image/png", "image/jpeg", "image/tiff", "image/webp"})
_STEPS_BYTES = 24 << 20
_PAGE_PICTURES_BYTES = 64 << 20
_PICTURE_CALLS = 64
_PICTURES_BYTES = 8 << 20  # of one call of the text pass, beside what it says
_MiB = 1 << 20


class PageReader:
    """The two pools that read documents; the first belongs to the caller. For the event loop that uses it first."""

    def __init__(self, sandbox: Sandbox, pdf: PdfSettings, ocr: OcrSettings, sandbox_settings: SandboxSettings) -> None:
        self._sandbox, self._pdf, self._ocr = sandbox, pdf, ocr
        self._recognisers = ocr_sandbox(ocr, sandbox_settings)
        self._starting = asyncio.Lock()
        self._started = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        async with self._starting:
            if self._started:
                self._started = False
                await self._recognisers.close()

    async def page_count(self, path: Path, media_type: str, tenant: str = "") -> int:
        """Of a PDF, or of a TIFF; other pictures have one. What cannot be opened is refused here."""
        if media_type == PDF:
            counted = await self._sandbox.call(
                "penstock.pdf.look:count_pages", files=[path], limits=self._text_limits(), tenant=tenant, returns=int
            )
            return counted.value if counted.value is not None else _refuse(counted)
        if media_type not in PICTURES:
            raise PenstockError(error_codes.ETL_FILE_TYPE, media_type=media_type)
        recognisers = await self._running()
        seen = await recognisers.call(
            "penstock.pdf.ocr.reading:examine_picture",
            self._ocr.max_picture_pixels, self._ocr.max_picture_frames,
            files=[path], tenant=tenant, returns=Picture,
        )  # fmt: skip
        if seen.value is None:
            raise picture_refused(seen)
        return seen.value.frames

    async def pages(self, path: Path, media_type: str, skip: frozenset[int] = frozenset()) -> AsyncIterator[Page]:
        """Every page but those of `skip`, each when it is ready. Stop reading to stop the work."""
        count = await self.page_count(path, media_type)
        async with aclosing(self._read(self._run(path, count, skip, ""), media_type, bool(skip))) as read:
            async for each in read:
                yield each.page

    async def with_pictures(
        self, path: Path, media_type: str, count: int, skip: frozenset[int] = frozenset(), *, tenant: str = ""
    ) -> AsyncIterator[ReadPage]:
        """As `pages`, of a document that is known to have `count` of them, and with the pictures on them."""
        run = self._run(path, count, skip, tenant)
        run.picture_bytes = _PICTURES_BYTES
        async with aclosing(self._read(run, media_type, bool(skip))) as read:
            async for each in read:
                pictures = each.pictures
                if pictures is None and media_type == PDF:
                    pictures = await self._images(run, each.page)
                if pictures is not None and not set(_kept_images(each.page)) <= pictures.keys():
                    each.page.warnings.append(PICTURES_MISSING)
                yield ReadPage(each.page, pictures)

    def _run(self, path: Path, count: int, skip: frozenset[int], tenant: str) -> Run:
        wanted = [number for number in range(1, count + 1) if number not in skip]
        text = self._pdf.read_total_sec + len(wanted) * self._pdf.read_per_page_sec
        recognising = self._ocr.document_seconds + len(wanted) * self._ocr.document_seconds_per_page
        recognisers = TimedCalls(self._recognisers, recognising.total_seconds(), tenant)
        return Run(path, wanted, TimedCalls(self._sandbox, text, tenant), recognisers)

    async def _read(self, run: Run, media_type: str, is_readable: bool) -> AsyncGenerator[ReadPage]:
        tasks = self._tasks(run, media_type)
        held: list[ReadPage] = []  # unreadable, as long as nothing was readable
        try:
            for _ in run.wanted:
                read = await run.next_page(tasks)
                if UNREADABLE in read.page.warnings and not read.page.spans and not is_readable:
                    held.append(read)
                    continue
                is_readable = True
                for each in (*held, read):
                    yield each
                held.clear()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if held:
            raise run.refusal or PenstockError(error_codes.PDF_UNREADABLE, reason="no page can be read")

    async def _images(self, run: Run, page: Page) -> dict[str, ImageBytes]:
        """The pictures of a PDF's page by their ids, but specks: in as many calls as they take, up to a bound."""
        wanted, found = _kept_images(page), dict[str, ImageBytes]()
        room, ask = _PAGE_PICTURES_BYTES, len(wanted)
        for _ in range(_PICTURE_CALLS):
            if not wanted or room <= 0 or run.text.is_spent:
                break
            outcome = await run.text.call(
                "penstock.pdf.pages.images:images_bytes", page.number, wanted[:ask], _STEPS_BYTES - _MiB,
                files=[run.path], limits=self._text_limits(), returns=dict[str, ImageBytes],
            )  # fmt: skip
            got = {id_: picture for id_, picture in (outcome.value or {}).items() if is_sound(picture)}
            found |= got
            room -= sum(len(each.data) for each in got.values())
            if not got and ask == 1:
                log.info("page.image_not_read", page=page.number, ending=outcome.ending, error=outcome.error)
                wanted = wanted[1:]
            wanted = [each for each in wanted if each not in got]
            ask = min(2 * len(got), len(wanted)) or max(1, min(ask, len(wanted)) // 2)  # no more than may fit
        return found

    def _tasks(self, run: Run, media_type: str) -> list[asyncio.Task[None]]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._recognise(run)) for _ in range(run.recognisers.places)]
        if media_type == PDF:
            readers = min(run.text.places, len(run.wanted) or 1)
            tasks += [loop.create_task(self._read_slices(run)) for _ in range(readers)]
        else:
            tasks.append(loop.create_task(_all_to_recognisers(run)))
        return tasks

    async def _read_slices(self, run: Run) -> None:
        for first, last in run.slices:  # one iterator for all: each takes the next when it is done
            await self._read_slice(run, first, last)

    async def _read_slice(self, run: Run, first: int, last: int) -> None:
        """A call may return early; then the next goes on from there. A bad page costs itself, a bad picture less.

        After a call that failed, pages are asked for one by one: halving would wait for a slow one again and again.
        """
        pictures, is_careful = run.picture_bytes, False
        while first <= last:
            until = first if is_careful else last
            outcome = await run.text.call(
                "penstock.pdf.finishing:read_finished",
                first, until, {"seconds": self._pdf.security_parse_timeout_sec / 3, "picture_bytes": pictures},
                files=[run.path], limits=run.hurried(self._text_limits()), returns=list[Step],
            )  # fmt: skip
            steps = outcome.value
            run.overlong += outcome.ending is Ending.TIMED_OUT
            if steps is not None and _continues(steps, first, until):
                for step in with_told_before(steps):
                    await run.pass_on(step)
                first += len(steps)
            elif pictures or until > first:
                pictures, is_careful = 0, True
            else:
                run.give_up(outcome, f"page {first}")
                await run.done.put(ReadPage(unreadable_page(first)))
                first += 1

    async def _recognise(self, run: Run) -> None:
        while True:
            step = await run.to_recognise.get()
            await self._running()
            outcome = await self._recognise_page(run, step)
            # Perhaps not its own fault: the system may be short of memory. Killed calls were made twice already.
            if outcome.ending is Ending.CRASHED and not outcome.is_killed:
                outcome = await self._recognise_page(run, step)
            page = outcome.value
            if page is None or page.number != step.number:
                run.give_up(outcome, f"page {step.number}", is_picture=not step.draft)
                page = await self._without_pictures(run, step)
            await run.done.put(ReadPage(page, step.pictures))

    async def _without_pictures(self, run: Run, step: Step) -> Page:
        """Text that the file itself has is not lost with the rest of its page."""
        if not step.draft:
            return unreadable_page(step.number)
        outcome = await run.text.call(
            "penstock.pdf.finishing:finish_without_pictures", step.draft, limits=self._text_limits(), returns=Page
        )
        page = outcome.value
        return page if page is not None and page.number == step.number else unreadable_page(step.number)

    async def _recognise_page(self, run: Run, step: Step) -> Outcome[Page]:
        function = "complete_page" if step.draft else "picture_page"
        return await run.recognisers.call(
            f"penstock.pdf.ocr.reading:{function}", step.draft or step.number, self._looking, self._ocr.warn_confidence,
            files=[run.path], returns=Page,
        )  # fmt: skip

    @property
    def _looking(self) -> dict[str, Any]:
        ocr = self._ocr
        return {
            "dpi": ocr.dpi, "max_pixels": ocr.max_pixels, "max_picture_pixels": ocr.max_picture_pixels,
            "min_confidence": ocr.min_confidence,
        }  # fmt: skip

    async def _running(self) -> Sandbox:
        async with self._starting:
            if not self._started:
                await self._recognisers.start()
                self._started = True
        return self._recognisers

    def _text_limits(self) -> Limits:
        seconds, memory = self._pdf.security_parse_timeout_sec, self._pdf.security_memory_limit_mb * _MiB
        return Limits(memory=memory, cpu_seconds=seconds, wall_seconds=WALL_FACTOR * seconds, result_bytes=_STEPS_BYTES)


async def _all_to_recognisers(run: Run) -> None:
    for number in run.wanted:
        await run.to_recognise.put(Step(number))


def _continues(steps: list[Step], first: int, last: int) -> bool:
    numbers = [step.number for step in steps]
    return bool(numbers) and numbers[-1] <= last and numbers == list(range(first, first + len(numbers)))


def _kept_images(page: Page) -> list[str]:
    return [each.id for each in page.images if not is_speck(each)]


def _refuse(outcome: Outcome[Any]) -> int:
    issue = issue_of(outcome)
    raise PenstockError(
        error_codes.REGISTRY.get(issue.code, error_codes.REGISTRY[codes.PARSE_FAILED]), reason=issue.detail
    )
