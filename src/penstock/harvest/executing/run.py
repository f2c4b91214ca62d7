"""One run of a task: request after request, each answer committed before the next request is made.

A killed executor therefore repeats one request at the most and no write. A run ends as a value (`Outcome`): finished,
cut into smaller slices, given back because somebody wants to stop, its time is used up or the source's rate allows
nothing for a while, or failed. What the source does wrong is told by an error code; this file decides what follows.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import structlog

from penstock.harvest.calling import Answer, Context, Fetched, Fetcher, Order, PageVars, public_url, render
from penstock.harvest.cursors import Closing
from penstock.harvest.executing import metrics, settle, store
from penstock.harvest.executing.claim import TASKS
from penstock.harvest.executing.clocks import clock_behind, held_back, is_believable
from penstock.harvest.executing.commit import (
    Batch,
    Refusal,
    RunStats,
    batch_row,
    close_slice,
    failed_row,
    late_arrivals,
    store_batch,
    store_refusal,
)
from penstock.harvest.executing.position import Ask, Overflow, Phase, Position
from penstock.harvest.executing.reslice import cut
from penstock.harvest.executing.settle import Ending
from penstock.harvest.executing.tally import Tally
from penstock.harvest.executing.work import Work
from penstock.harvest.page import Page
from penstock.harvest.planning.windows import Wish
from penstock.harvest.records import Counts
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.states import RunStatus, TaskStatus
from penstock.kernel import error_codes, failpoints, leases
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError, circumstances_of
from penstock.kernel.telemetry import spanned

log = structlog.get_logger(__name__)

_LOGGED = 100  # one in so many batches that went well
_AUTH_REST = 600.0  # seconds for which nobody tries a source that refuses our credentials


@dataclass(frozen=True, slots=True)
class Note:
    """What a live view is told after each batch."""

    provenance_code: str
    operation: str
    task_id: int
    counts: Counts
    served: int
    waited: float  # seconds that the rate limit took
    is_finished: bool


@dataclass(frozen=True, slots=True)
class Tools:
    database: Database
    fetcher: Fetcher
    settings: HarvestSettings
    clock: Clock
    tell: Callable[[Note], None] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    run: RunStatus
    task: TaskStatus
    error: Mapping[str, Any] | None = None


class TaskRun:
    def __init__(self, tools: Tools, work: Work, stop: asyncio.Event) -> None:
        self._tools = tools
        self._work = work
        self._stop = stop
        self._course = work.course
        self._stats = RunStats()
        self._batch_no = 0
        self._tally = Tally()
        self._begun = time.monotonic()
        self._behind: timedelta = work.row["clock_behind"]  # the source's clock, as last seen

    async def run(self) -> Outcome:
        """Until the slice is done or something ends it; the task is let go when this returns."""
        position = await self._first_position()
        if position.is_finished:
            return await self._end_empty(position)
        if self._course.is_worn(position) and await self._cut_worn():
            return Outcome(RunStatus.PARTIAL, TaskStatus.PARTIAL)
        while (ask := self._course.ask(position)) is not None:
            if early := self._reason_to_yield():
                return await self._end(Ending(RunStatus.PARTIAL, TaskStatus.QUEUED, early))
            try:
                with spanned("harvest.batch", **self._names(), phase=ask.phase, page=ask.page_no):
                    following = await self._one_batch(ask, position)
            except PenstockError as failure:
                following = await self._after_failure(ask, position, failure)
            if isinstance(following, Outcome):
                return following
            position = following
        if position.is_short:
            return await self._end_short(position)
        return Outcome(RunStatus.SUCCEEDED, TaskStatus.SUCCEEDED)

    async def _end_short(self, position: Position) -> Outcome:
        """All that came is stored, but the window stays open: the source says that it has more."""
        limit, total = self._course.page_limit, position.total
        is_beyond = total is None or (limit is not None and total > limit)
        code = error_codes.SOURCE_TRUNCATED if is_beyond else error_codes.SOURCE_SHORT
        metrics.count_error(self._work.partition, code)
        said = "more than can be read" if total is None else f"{total} results"
        return await self._end(self._failed({"code": code.code, "message": f"the source says that it has {said}"}))

    async def _first_position(self) -> Position:
        if self._work.position is None:
            return self._course.begin()
        async with self._tools.database.transaction() as tx:
            self._tally.recall(await store.ids_seen(tx, self._work.held.task_id))
        return self._course.resume(self._work.position, self._tools.clock.now())

    async def _end_empty(self, position: Position) -> Outcome:
        async with self._tools.database.transaction() as tx:
            await leases.assert_held(tx, TASKS, self._work.held.lease)
            await close_slice(tx, self._work, Closing(self._work.lineage(0)), position)
            ending = Ending(RunStatus.SUCCEEDED, TaskStatus.SUCCEEDED, "nothing_to_fetch")
            await settle.end(tx, self._work.held, ending)
        return Outcome(ending.run, ending.task)

    def _reason_to_yield(self) -> str | None:
        budget = self._course.slice.budget
        if self._stop.is_set():
            return "stopped"
        if self._batch_no and time.monotonic() - self._begun > budget.max_duration_sec:
            return "time_used"
        if budget.max_requests is not None and self._batch_no >= 2 * budget.max_requests:
            return "requests_used"  # twice what was planned: others had better have a turn
        return None

    # One request ---------------------------------------------------------------------------------------------
    async def _one_batch(self, ask: Ask, position: Position) -> Position | Outcome:
        begun = time.monotonic()
        asked_at = self._tools.clock.now()
        fetched = await self._fetch(ask)
        failpoints.reach("harvest.fetched")
        if ask.phase is Phase.LIST:  # a record that is asked for by its id may be a copy of any age
            await self._note_clock(fetched)
        page = _page_of(fetched)
        if page.next_url:  # some sources write the caller's key into it, wherever it was sent
            page.next_url = fetched.mask.link(page.next_url)
        ids_hash = self._note_ids(page, position) if ask.phase is Phase.LIST else None
        following = self._follow(ask, position, page)
        if isinstance(following, Overflow):
            return await self._cut(following, ask, position, fetched)
        if self._course.is_two_phase and ask.phase is Phase.LIST:
            following, page = await self._without_bad_ids(following), _only_faults(page)
        if ask.phase is Phase.LIST:
            wish = Wish(None, None, asked_at, self._behind)
            following = held_back(self._work.spec, self._course.slice.span, following, wish)
        remarks = late_arrivals(page, ask.span)
        if following.safe_to is not None:
            remarks |= {"heldBack": following.safe_to.isoformat()}
        if following.is_short:
            found = self._tally.found(position.reading).here if self._course.is_comparable else None
            remarks |= {"missing": {"total": following.total, "found": found}}
            log.warning("slice.short", **self._names(), total=following.total, found=found)
        self._batch_no += 1
        batch = Batch(self._batch_no, ask, position, following, fetched, page, ids_hash, remarks)
        async with self._tools.database.transaction() as tx:
            counts = await store_batch(tx, self._work, batch, self._stats)
            failpoints.reach("harvest.batch_stored")
        failpoints.reach("harvest.batch_committed")
        metrics.count_batch(self._work.partition, counts, len(page.faults), time.monotonic() - begun)
        self._tell(batch, counts)
        return following

    async def _note_clock(self, fetched: Fetched[Page]) -> None:
        """Before anything is closed: the planner must not go further than the source's clock."""
        measured = fetched.date_behind
        if measured is None or (behind := clock_behind(measured)) == self._behind:
            return
        if not is_believable(measured):
            if not self._batch_no:  # once in a run says it
                log.warning("source.clock_not_believed", **self._names(), behind=measured.total_seconds())
            return
        log.info("source.clock_seen", **self._names(), behind=behind.total_seconds())
        async with self._tools.database.transaction() as tx:
            await store.note_clock(tx, self._work.partition, behind)
        self._behind = behind

    async def _fetch(self, ask: Ask) -> Fetched[Page]:
        work, spec = self._work, self._work.spec
        is_detail = ask.phase is Phase.DETAIL
        sections = work.details if is_detail else spec
        reader = (work.readers.details or work.readers.lists) if is_detail else work.readers.lists
        context = Context(
            span=ask.span,
            page=PageVars(ask.page_no, ask.offset, ask.size, ask.token, ask.url),
            ids=ask.ids,
            params={**spec.params, **self._course.local.params},
            now=self._tools.clock.now(),
        )

        async def read(answer: Answer) -> Page:
            page = await reader.read_aside(answer.body, span=ask.span, asked=ask.ids)
            if page.next_url:  # some sources write the caller's key into it
                page.next_url = public_url(sections, page.next_url)
            return page

        order: Order[Page] = Order(
            spec=spec, sections=sections, request=render(sections, context), task=str(work.held.task_id),
            correlation_id=f"ing-{work.held.run_id}-{self._batch_no + 1}", operation=spec.operation, read=read,
        )  # fmt: skip
        return await self._tools.fetcher.fetch(order)

    def _follow(self, ask: Ask, position: Position, page: Page) -> Position | Overflow:
        if ask.phase is Phase.DETAIL:
            return self._course.after_details(position)
        return self._course.after_list(position, page, self._tally.found(position.reading), self._tools.clock.now())

    def _note_ids(self, page: Page, position: Position) -> bytes | None:
        """Only where there is a total, if on the first page alone: a scan of millions must not be kept in memory."""
        if (page.total is None and position.total is None) or not self._course.is_comparable:
            return None
        return self._tally.note(page.ids, position.reading)

    async def _without_bad_ids(self, position: Position) -> Position:
        if not position.pending:
            return position
        source, endpoint, _ = self._work.partition
        async with self._tools.database.transaction() as tx:
            bad = await store.bad_ids(tx, source, endpoint, position.pending)
        return msgspec.structs.replace(position, pending=tuple(each for each in position.pending if each not in bad))

    async def _cut(self, overflow: Overflow, ask: Ask, position: Position, fetched: Fetched[Page]) -> Outcome:
        """What this answer held is stored with the smaller slices; here only the books remember it."""
        self._batch_no += 1
        batch = Batch(self._batch_no, ask, position, position, fetched, Page(served=_page_of(fetched).served), None,
                      {"resliced": overflow.reason})  # fmt: skip
        async with self._tools.database.transaction() as tx:
            await leases.assert_held(tx, TASKS, self._work.held.lease)
            is_cut = await cut(tx, self._work, overflow)
            await store.insert_batch(tx, {**batch_row(self._work, batch, Counts(0, 0, 0)), "status_code": "SKIPPED"})
            if is_cut:
                await settle.end(tx, self._work.held, Ending(RunStatus.PARTIAL, TaskStatus.PARTIAL, "cut"))
                failpoints.reach("harvest.cut")
        if is_cut:
            metrics.count_cut(self._work.partition)
            log.warning("slice.cut", **self._names(), reason=overflow.reason)
            return Outcome(RunStatus.PARTIAL, TaskStatus.PARTIAL)
        metrics.count_error(self._work.partition, error_codes.SOURCE_TRUNCATED)
        log.error("slice.too_full", **self._names(), reason=overflow.reason)
        return await self._end(self._failed({"code": error_codes.SOURCE_TRUNCATED.code, "message": overflow.reason}))

    async def _cut_worn(self) -> bool:
        """False: it is as small as can be, and is read once more."""
        reason = "the source forgets its tokens before the window is read"
        async with self._tools.database.transaction() as tx:
            await leases.assert_held(tx, TASKS, self._work.held.lease)
            if not await cut(tx, self._work, Overflow(reason, self._course.slice.span)):
                return False
            await settle.end(tx, self._work.held, Ending(RunStatus.PARTIAL, TaskStatus.PARTIAL, "cut"))
        metrics.CUTS.labels(*self._work.partition).inc()
        log.warning("slice.cut", **self._names(), reason=reason)
        return True

    # When it goes wrong --------------------------------------------------------------------------------------
    async def _after_failure(self, ask: Ask, position: Position, failure: PenstockError) -> Position | Outcome:
        code = failure.code
        failpoints.reach("harvest.failed")
        if code is error_codes.RATE_LIMITED:
            return await self._rest(failure)
        if code is error_codes.SOURCE_REFUSED:
            if ask.phase is Phase.DETAIL:
                return await self._after_refused_details(ask, position, failure)
            if self._course.may_restart(ask, position):
                log.info("slice.begun_anew", **self._names(), reason="the source no longer knows the token")
                return self._course.restart(position)
        if code in {error_codes.LEASE_LOST, error_codes.STATE_CHANGED, error_codes.DB_UNAVAILABLE}:
            raise failure
        await self._note_failure(ask, failure)
        error = {"code": code.code, "message": circumstances_of(failure)}
        if code in {error_codes.SOURCE_UNAVAILABLE, error_codes.SOURCE_ANSWER_INVALID}:
            return await self._try_later(error)
        if code in {error_codes.SOURCE_AUTH_FAILED, error_codes.CREDENTIAL_MISSING}:
            await self._hold_partition(_AUTH_REST, code.code)
        return await self._end(self._failed(error))

    async def _try_later(self, error: Mapping[str, Any]) -> Outcome:
        """Attempts that stored something do not count: a source that fails now and then is still read to its end."""
        attempts = 0 if self._batch_no else self._work.held.task["attempts"]
        if attempts + 1 >= self._tools.settings.attempts:
            return await self._end(self._failed(error))
        rest = settle.back_off(attempts)
        is_fruitless = not self._batch_no
        return await self._end(Ending(RunStatus.FAILED, TaskStatus.QUEUED, "failed", error, rest, is_fruitless))

    async def _rest(self, failure: PenstockError) -> Outcome:
        """The source allows nothing for a while: others may have our slot, and nobody else need try."""
        seconds = float(failure.details.get("retry_after") or 1.0)
        reason = str(failure.details.get("reason") or "rate")
        metrics.count_error(self._work.partition, failure.code)
        await self._hold_partition(min(seconds, 3600.0), reason)
        return await self._end(
            Ending(RunStatus.PARTIAL, TaskStatus.QUEUED, "rate_limited", after=timedelta(seconds=seconds))
        )

    async def _after_refused_details(self, ask: Ask, position: Position, failure: PenstockError) -> Position | Outcome:
        """One bad id must not cost the others: the batch is halved until the bad one stands alone."""
        smaller = self._course.with_fewer_ids(position)
        if smaller is not None:
            return smaller
        following = self._course.after_details(position)
        self._batch_no += 1
        refusal = Refusal(self._batch_no, ask.ids[0], following, failure)
        async with self._tools.database.transaction() as tx:
            await store_refusal(tx, self._work, refusal, self._stats)
        metrics.count_refused_item(self._work.partition)
        log.warning("item.quarantined", **self._names(), id=refusal.provider_id, reason=circumstances_of(failure))
        return following

    def _failed(self, error: Mapping[str, Any]) -> Ending:
        return Ending(RunStatus.FAILED, TaskStatus.FAILED, "failed", error)

    async def _note_failure(self, ask: Ask, failure: PenstockError) -> None:
        """A request that came to nothing is in the books too."""
        error = {"code": failure.code.code, "details": dict(failure.details)}
        row = failed_row(self._work, self._batch_no + 1, error) | {
            "page_no": ask.page_no,
            "window_from": ask.span.start if ask.span else None,
            "window_to": ask.span.end if ask.span else None,
        }
        async with self._tools.database.transaction() as tx:
            await leases.assert_held(tx, TASKS, self._work.held.lease)
            await store.insert_batch(tx, row)
        metrics.count_failure(self._work.partition, failure.code)
        log.warning("batch.failed", **self._names(), batch_no=self._batch_no + 1, code=failure.code.code,
                    reason=circumstances_of(failure))  # fmt: skip

    async def _hold_partition(self, seconds: float, reason: str) -> None:
        async with self._tools.database.transaction() as tx:
            await leases.assert_held(tx, TASKS, self._work.held.lease)
            await store.hold_partition(tx, self._work.partition, seconds, reason)

    async def _end(self, ending: Ending) -> Outcome:
        async with self._tools.database.transaction() as tx:
            await settle.end(tx, self._work.held, ending)
            failpoints.reach("harvest.letting_go")
        failpoints.reach("harvest.let_go")
        said = log.error if ending.task is TaskStatus.FAILED else log.info
        said("run.ended", **self._names(), outcome=ending.run, task=ending.task, trigger=ending.trigger,
             code=(ending.error or {}).get("code"))  # fmt: skip
        return Outcome(ending.run, ending.task, ending.error)

    def _tell(self, batch: Batch, counts: Counts) -> None:
        waited = float(batch.fetched.evidence["waitTotalMs"]) / 1000
        source, _, operation = self._work.partition
        if (self._work.held.run_id + batch.number) % _LOGGED == 0:  # all that went wrong is logged, this now and then
            log.info("batch.stored", **self._names(), batch_no=batch.number, served=batch.page.served,
                     inserted=counts.inserted, updated=counts.updated, waited=waited)  # fmt: skip
        if self._tools.tell is None:
            return
        self._tools.tell(
            Note(source, operation, self._work.held.task_id, counts, batch.page.served, waited, batch.after.is_finished)
        )

    def _names(self) -> dict[str, Any]:
        source, endpoint, operation = self._work.partition
        return {
            "source": source, "endpoint": endpoint, "operation": operation, "task_id": self._work.held.task_id,
            "run_id": self._work.held.run_id,
        }  # fmt: skip


def _page_of(fetched: Fetched[Page]) -> Page:
    if fetched.page is None:
        raise TypeError("every answer of a run is read")
    return fetched.page


def _only_faults(page: Page) -> Page:
    """Of a list of ids nothing is stored but what was wrong with it."""
    return Page(faults=page.faults, served=page.served, total=page.total, next_token=page.next_token,
                next_url=page.next_url)  # fmt: skip
