"""One document being read: what is still to be done, the time that is left for it, short queues between the passes."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import structlog

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Ending, Limits, Outcome, Sandbox
from penstock.pdf.examine import issue_of
from penstock.pdf.pages.images import ImageBytes
from penstock.pdf.pages.model import Page
from penstock.pdf.steps import UNREADABLE, Step

Value = TypeVar("Value")
log = structlog.get_logger(__name__)

_SLICE = 24  # pages of one call of the text pass
_PATIENCE = 16  # killed calls of the text pass, after which a document is made to hurry
_HURRY = 10


class ReadPage(NamedTuple):
    """A page, and the pictures on it by their ids; None: they were not taken with it."""

    page: Page
    pictures: dict[str, ImageBytes] | None = None


class TimedCalls:
    """A pool as one document may use it: so much CPU time for all its calls together, then none is made any more.

    A page may be slow. A document of nothing but slow pages would hold up its merchant's others for hours.
    """

    def __init__(self, sandbox: Sandbox, seconds: float, tenant: str = "") -> None:
        self._sandbox, self._left, self._tenant = sandbox, seconds, tenant
        self.places = sandbox.settings.workers

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    async def call(
        self,
        function: str,
        *args: Any,
        files: Sequence[Path] = (),
        limits: Limits | None = None,
        returns: type[Value],
    ) -> Outcome[Value]:
        """As the pool's. Calls that are under way when the time is up are let be: their own limits hold."""
        if self.is_spent:
            return Outcome(Ending.TIMED_OUT, message="all the time for this document is used up")
        outcome = await self._sandbox.call(
            function, *args, files=files, limits=limits, tenant=self._tenant, returns=returns
        )
        self._left -= outcome.seconds
        if self._left <= 0:
            log.warning("document.time_used_up", function=function)
        return outcome


class Run:
    """One document being read: what is still to be done, and short queues between those who do it."""

    def __init__(self, path: Path, wanted: Sequence[int], text: TimedCalls, recognisers: TimedCalls) -> None:
        self.path, self.wanted = path, wanted
        self.text, self.recognisers = text, recognisers
        self.picture_bytes = 0
        self.slices = _slices(self.wanted)
        self.to_recognise: asyncio.Queue[Step] = asyncio.Queue(recognisers.places)
        self.done: asyncio.Queue[ReadPage] = asyncio.Queue(_SLICE)
        self.refusal: PenstockError | None = None
        self.overlong = 0  # calls of the text pass that were killed for their time

    def hurried(self, limits: Limits) -> Limits:
        """A page may be slow. A document of such pages would take a day: from some point on each gets less time."""
        return limits if self.overlong < _PATIENCE else replace(limits, cpu_seconds=limits.cpu_seconds / _HURRY)

    async def pass_on(self, step: Step) -> None:
        if step.page is not None:
            await self.done.put(ReadPage(step.page, step.pictures))
        else:
            await self.to_recognise.put(step)

    async def next_page(self, tasks: list[asyncio.Task[None]]) -> ReadPage:
        """The next one done; raises what ended a task instead."""
        if not self.done.empty():
            return self.done.get_nowait()
        getting = asyncio.ensure_future(self.done.get())
        try:
            while not getting.done():
                watched = [task for task in tasks if not task.done()]
                await asyncio.wait([getting, *watched], return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done() and not task.cancelled() and (failure := task.exception()) is not None:
                        raise failure
        finally:
            getting.cancel()
        return getting.result()

    def give_up(self, outcome: Outcome[Any], place: str, *, is_picture: bool = False) -> None:
        if is_picture:
            self.refusal = picture_refused(outcome)
        else:
            issue = issue_of(outcome, place)
            self.refusal = PenstockError(error_codes.REGISTRY[issue.code], place=place, reason=issue.detail)
        log.warning("page.not_read", place=place, ending=outcome.ending, error=outcome.error)


def _slices(wanted: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of pages that follow each other, both ends included, none longer than a slice."""
    first = last = 0
    for number in wanted:
        if first and number == last + 1 and number - first < _SLICE:
            last = number
            continue
        if first:
            yield first, last
        first = last = number
    if first:
        yield first, last


def unreadable_page(number: int) -> Page:
    return Page(number, 0.0, 0.0, warnings=[UNREADABLE])


def picture_refused(outcome: Outcome[Any]) -> PenstockError:
    if outcome.error == "PictureUnreadable":
        reason = outcome.message
    else:  # what our own code or a library says of itself is for the log
        reason = f"{outcome.ending}: {outcome.error or outcome.message}"
    return PenstockError(error_codes.ETL_IMAGE_UNREADABLE, reason=reason[:200])
