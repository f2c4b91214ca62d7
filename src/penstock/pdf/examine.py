"""The public face of PDF admission: asks the sandbox, and turns whatever becomes of the call into a verdict.

A file that hangs, crashes or eats memory is refused with a reason like any other. Times are CPU times, from when work
begins: a machine that is overloaded, or kills our processes, gives no verdict but SANDBOX_UNAVAILABLE, and the work is
tried again. `tenant` is the merchant whose file it is; all merchants share the places of the sandbox fairly.
PDFium sees only files that `inspect` has passed: call `prescan` and `render` after it.
"""

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from signal import Signals
from typing import Any

import structlog

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Ending, Limits, Outcome, Sandbox, SandboxSettings
from penstock.pdf import codes
from penstock.pdf.findings import Inspection, Issue
from penstock.pdf.metrics import PageMetrics, RenderedPage
from penstock.pdf.prescan import PrescanRules
from penstock.pdf.settings import PdfSettings

log = structlog.get_logger(__name__)

_MiB = 1 << 20
_SMALL = 24  # pages for which one call is as quick as several
_LARGEST_PICTURE = 32 * _MiB
# PDFium ends its process by one of these when memory runs out.
_MEMORY_SIGNALS = {Signals.SIGABRT, Signals.SIGTRAP, Signals.SIGILL}
_MEMORY_EXIT = 127
WALL_FACTOR = 10  # times the CPU time: a machine that is this busy gives no verdict
_FIRST_PAGES = 5  # from so many slow pages on, the rest of a document can be foreseen
_READING = ("penstock.pdf.finishing",)
_PRELOAD = ("penstock.pdf.look", "penstock.pdf.measure", "penstock.pdf.rendering")


class PictureFormat(StrEnum):
    """Pictures that a page can be drawn as."""

    PNG = "PNG"
    JPEG = "JPEG"
    WEBP = "WEBP"

    @property
    def media_type(self) -> str:
        return f"image/{self.lower()}"


@dataclass(frozen=True, slots=True)
class Scan:
    """The pages that were measured, in order; with an issue, not all of them were."""

    pages: list[PageMetrics] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.issues


def pdf_sandbox(
    settings: PdfSettings, sandbox_settings: SandboxSettings, *, reads_pages: bool = False, also: Sequence[str] = ()
) -> Sandbox:
    """The pool that an Examiner needs, with its modules warm; and those of a PageReader, if asked; and `also` those."""
    limits: dict[str, Any] = {
        "memory": settings.security_memory_limit_mb * _MiB,
        "cpu_seconds": settings.security_parse_timeout_sec,
        "wall_seconds": WALL_FACTOR * settings.security_parse_timeout_sec,
        "result_bytes": _LARGEST_PICTURE,
    }
    preload = (*_PRELOAD, *(_READING if reads_pages else ()), *also)
    return Sandbox(sandbox_settings.model_copy(update=limits), preload=preload)


class Examiner:
    """Looks at PDFs that nobody has looked at yet."""

    def __init__(self, sandbox: Sandbox, settings: PdfSettings) -> None:
        self.sandbox = sandbox
        self._settings = settings
        self._bounds = asdict(settings.bounds)

    async def inspect(self, path: Path, *, tenant: str = "") -> Inspection:
        """What the file is, and everything that speaks against it."""
        outcome = await self.sandbox.call(
            "penstock.pdf.look:look_into", self._bounds,
            files=[path], limits=self._limits(_MiB), tenant=tenant, returns=Inspection,
        )  # fmt: skip
        if outcome.value is None:
            issue = issue_of(outcome)
            return Inspection(issues=[issue], issue_count=1)
        if any(each.code not in error_codes.REGISTRY for each in outcome.value.issues):
            return Inspection(issues=[Issue(codes.PARSE_FAILED, "", "garbled")], issue_count=1)
        return outcome.value

    async def prescan(self, path: Path, page_count: int, rules: PrescanRules, *, tenant: str = "") -> Scan:
        """Measures all pages, in parallel as far as the pool has places; `judge_pages` says what follows."""
        work = _Prescan(path, tenant, page_count, self._settings.prescan_timeout_sec)
        slices = _slices(page_count, self.sandbox.settings.workers)

        async def measure() -> None:
            for first, last in slices:  # one iterator for all: each takes the next slice when it is done
                await self._scan_slice(work, (first, last), rules.min_text_chars_for_blank)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.sandbox.settings.workers):
                    group.create_task(measure())
        except BaseExceptionGroup as failures:  # our own trouble; one of it is enough to tell
            raise failures.exceptions[0] from failures
        return Scan(sorted(work.pages, key=lambda page: page.number), work.issues)

    async def render(
        self,
        path: Path,
        page_number: int,
        dpi: float = 150,
        picture_format: PictureFormat = PictureFormat.PNG,
        *,
        tenant: str = "",
    ) -> bytes:
        """A picture of one page, from 1. The resolution is lowered where the page is very large."""
        limits = self._limits(_LARGEST_PICTURE, self._settings.render_timeout_sec)
        outcome = await self.sandbox.call(
            "penstock.pdf.rendering:render",
            page_number, float(dpi), picture_format.value, self._settings.render_max_pixels,
            files=[path], limits=limits, tenant=tenant, returns=RenderedPage,
        )  # fmt: skip
        if outcome.value is not None:
            return outcome.value.data
        if outcome.error == "NoSuchPage":
            raise PenstockError(error_codes.NOT_FOUND, page=page_number)
        issue = issue_of(outcome, f"page {page_number}")
        raise PenstockError(error_codes.REGISTRY[issue.code], place=issue.place, reason=issue.detail)

    async def _scan_slice(self, work: "_Prescan", span: tuple[int, int], min_text: int) -> None:
        """A call may return early with what it has; then the next goes on from there."""
        first, last = span
        while first <= last and not work.issues:
            outcome = await self.sandbox.call(
                "penstock.pdf.measure:measure",
                first, last, min_text, self._settings.security_parse_timeout_sec / 3,
                files=[work.path], limits=self._limits(_MiB), tenant=work.tenant, returns=list[PageMetrics],
            )  # fmt: skip
            place = f"pages {first} to {last}" if last > first else f"page {first}"
            if outcome.value is None:
                work.issues.append(issue_of(outcome, place))
            elif not _continues(outcome.value, first, last):
                work.issues.append(Issue(codes.PARSE_FAILED, place, "garbled"))
            else:
                work.add(outcome.value, outcome.seconds)
                first += len(outcome.value)

    def _limits(self, result_bytes: int, seconds: float = 0) -> Limits:
        seconds = seconds or self._settings.security_parse_timeout_sec
        memory = self._settings.security_memory_limit_mb * _MiB
        return Limits(memory=memory, cpu_seconds=seconds, wall_seconds=WALL_FACTOR * seconds, result_bytes=result_bytes)


@dataclass(slots=True)
class _Prescan:
    """One document being measured, and the CPU time it may take."""

    path: Path
    tenant: str
    page_count: int
    seconds: float
    pages: list[PageMetrics] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    spent: float = 0.0

    def add(self, pages: list[PageMetrics], seconds: float) -> None:
        """Takes measured pages. A document whose first pages foretell that it can never be done is given up early."""
        self.pages += pages
        self.spent += seconds
        foreseen = self.spent / len(self.pages) * self.page_count
        is_hopeless = len(self.pages) >= _FIRST_PAGES and self.spent > self.seconds / 4 and foreseen > 4 * self.seconds
        if self.issues or not (is_hopeless or self.spent > self.seconds):
            return
        said = f"{len(self.pages)} of {self.page_count} pages took {self.spent:.0f} s, {self.seconds:g} s are for all"
        self.issues.append(Issue(codes.PARSE_TIMEOUT, "", said))


def issue_of(outcome: Outcome[Any], place: str = "") -> Issue:
    """The verdict on a file that the sandbox did not get through. SANDBOX_UNAVAILABLE if it is none."""
    log.info("pdf.call_ended_badly", ending=outcome.ending, error=outcome.error, message=outcome.message, place=place)
    if not outcome.is_verdict:
        raise PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason=f"{outcome.ending}: {outcome.message}"[:200])
    if outcome.ending is Ending.TIMED_OUT:
        return Issue(codes.PARSE_TIMEOUT, place, outcome.message)
    if outcome.ending is Ending.OUT_OF_MEMORY:
        return Issue(codes.MEMORY_EXCEEDED, place, "more memory than allowed")
    aborted = outcome.signal in _MEMORY_SIGNALS or outcome.exit_status == _MEMORY_EXIT
    if outcome.ending is Ending.CRASHED and aborted:
        return Issue(codes.MEMORY_EXCEEDED, place, outcome.message)
    if outcome.error == "CannotOpen":  # qpdf could repair it, PDFium cannot: damage, not malice
        return Issue(codes.PDF_UNREADABLE, place, outcome.message)
    said = f"{outcome.ending}: {outcome.error or outcome.message}"
    return Issue(codes.PARSE_FAILED, place, said[:200])


def _slices(page_count: int, workers: int) -> Iterator[tuple[int, int]]:
    """Spans of pages, both ends included; several per place, as pages differ."""
    size = page_count if page_count <= _SMALL else max(_SMALL, math.ceil(page_count / (workers * 4)))
    for first in range(1, page_count + 1, size or 1):
        yield first, min(first + size - 1, page_count)


def _continues(pages: list[PageMetrics], first: int, last: int) -> bool:
    numbers = [page.number for page in pages]
    return bool(numbers) and numbers[-1] <= last and numbers == list(range(first, first + len(numbers)))
