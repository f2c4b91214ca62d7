"""One worker's round: find jobs to do, go page by page, write down how far, stop when the job is taken away.

`PageProcessor` is the port of whatever reads pages. Told to stop, a run finishes the page in hand and gives the job
on. Whatever ends a run early (PostgreSQL away, a lost lease, a fault) costs a rest: if the job is still this
worker's, the next look takes it up again.
"""

import asyncio
from dataclasses import dataclass
from typing import Never, Protocol
from uuid import UUID

import psycopg
import structlog

from penstock.documents import pagework
from penstock.documents.checkpoint import Checkpoints
from penstock.documents.orphan_settings import OrphanSettings
from penstock.documents.pagework import Done, Failed, HeldPage, Hold
from penstock.documents.requeue import hand_over
from penstock.kernel import error_codes, failpoints
from penstock.kernel.backoff import pause
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError, raise_unless_unavailable, reason_of
from penstock.kernel.keeping import beside

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0
_REST_SECONDS = 5.0  # after a run that did not end well
_TAKEN_AWAY = (error_codes.LEASE_LOST, error_codes.STATE_CHANGED)


class PageProcessor(Protocol):
    """Reads pages. It is cancelled when the page, or its job, is taken away."""

    async def work_on(self, page: HeldPage) -> Done | Failed:
        """Outside any transaction; an exception counts as a failure of the page."""

    async def finish(self, hold: Hold) -> None:
        """Nothing is left for the machine: bring the job on. May be called again after a crash."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a worker needs to go through jobs."""

    database: Database
    checkpoints: Checkpoints
    settings: OrphanSettings
    worker_id: str


class JobRounds:
    """Runs the jobs of this worker; `hand_back` cuts short what is in hand."""

    def __init__(self, place: Workplace, processor: PageProcessor) -> None:
        self._place = place
        self._processor = processor
        self._running: dict[UUID, asyncio.Task[None]] = {}
        self._finished: set[UUID] = set()  # nothing to do for them unless pages come back
        self._resting: dict[UUID, float] = {}

    async def run(self, stop: asyncio.Event) -> None:
        while not await pause(stop, _LOOK_SECONDS):
            try:
                await self._look(stop)
            except PenstockError as away:
                if away.code not in (*_TAKEN_AWAY, error_codes.WORKER_NOT_ALIVE):  # not yet reported, or no more
                    raise_unless_unavailable(away)
                log.info("rounds.waiting", reason=str(away))
            except psycopg.Error:  # a job that cannot be taken must not end the role
                log.exception("rounds.stumbled")
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def hand_back(self) -> None:
        for task in self._running.values():
            task.cancel()

    async def _look(self, stop: asyncio.Event) -> None:
        """Jobs that were given to us first, then those that wait for anybody."""
        self._running = {job_id: task for job_id, task in self._running.items() if not task.done()}
        async with self._place.database.transaction() as tx:
            ours = await pagework.jobs_for(tx, self._place.worker_id)
        self._finished &= set(ours)
        for job_id, unfinished in ours.items():
            if self._has_room() and self._wanted(job_id, unfinished=unfinished):
                async with self._place.database.transaction() as tx:
                    hold = await pagework.take_up(tx, job_id, self._place.worker_id)
                self._begin(hold, stop)
        while self._has_room():
            async with self._place.database.transaction() as tx:
                taken = await pagework.take_next(tx, self._place.worker_id)
            if taken is None:
                return
            self._begin(taken, stop)

    def _has_room(self) -> bool:
        return len(self._running) < self._place.settings.jobs_per_worker

    def _wanted(self, job_id: UUID, *, unfinished: bool) -> bool:
        if job_id in self._running or self._resting.get(job_id, 0.0) > asyncio.get_running_loop().time():
            return False
        return unfinished or job_id not in self._finished

    def _begin(self, hold: Hold, stop: asyncio.Event) -> None:
        self._resting.pop(hold.job_id, None)
        self._running[hold.job_id] = asyncio.create_task(self._run_job(hold, stop), name=f"job {hold.job_id}")

    async def _run_job(self, hold: Hold, stop: asyncio.Event) -> None:
        try:
            await JobRun(self._place, self._processor, hold).run(stop)
            self._finished.add(hold.job_id)
        except PenstockError as ended:
            if ended.code in _TAKEN_AWAY:
                log.info("job.taken_away", job=str(hold.job_id))
            else:
                self._rest(hold)
                log.warning("job.interrupted", job=str(hold.job_id), reason=str(ended))
        except Exception:  # one job's fault must not end the worker
            self._rest(hold)
            log.exception("job.stumbled", job=str(hold.job_id))
        await self._put_down(hold)

    async def _put_down(self, hold: Hold) -> None:
        try:
            async with self._place.database.transaction() as tx:
                await pagework.put_down(tx, hold)
        except PenstockError as away:
            raise_unless_unavailable(away)  # what it says of us is put right when we take the job up again

    def _rest(self, hold: Hold) -> None:
        self._resting[hold.job_id] = asyncio.get_running_loop().time() + _REST_SECONDS


class JobRun:
    """One job in this worker's hands."""

    def __init__(self, place: Workplace, processor: PageProcessor, hold: Hold) -> None:
        self._place = place
        self._processor = processor
        self._hold = hold

    async def run(self, stop: asyncio.Event) -> None:
        """Until nothing is left, or told to stop; then the job goes to somebody else."""
        try:
            ended = await self._all_pages(stop)
        except asyncio.CancelledError:
            await self._give_on()
            raise
        if not ended:
            await self._give_on()
            return
        await self._processor.finish(self._hold)

    async def _all_pages(self, stop: asyncio.Event) -> bool:
        """True when the machine has nothing left to do."""
        since_checkpoint = 0
        while not stop.is_set():
            async with self._place.database.transaction() as tx:
                pages = await pagework.claim_pages(tx, self._hold, ttl=self._place.settings.page_lease_sec)
            for page in pages:
                await self._one_page(page)
            since_checkpoint += len(pages)
            if not pages or since_checkpoint >= self._place.settings.checkpoint_interval:
                await self._place.checkpoints.save(self._hold)
                since_checkpoint = 0
            if not pages:
                return True
        return False

    async def _one_page(self, page: HeldPage) -> None:
        outcome = await self._worked(page)
        async with self._place.database.transaction() as tx:
            if isinstance(outcome, Done):
                await pagework.complete(tx, page, outcome)
            else:
                await pagework.fail(tx, page, outcome, most_failures=self._place.settings.page_max_failures)
        failpoints.reach("page.completed")

    async def _worked(self, page: HeldPage) -> Done | Failed:
        """The work, beside a watch that renews the lease; a lost one cancels the work."""
        return await beside(lambda: self._keep(page), lambda: self._guarded(page))

    async def _guarded(self, page: HeldPage) -> Done | Failed:
        try:
            return await self._processor.work_on(page)
        except Exception as failure:  # a processor's fault is the page's, not the worker's
            log.exception("page.stumbled", job=str(self._hold.job_id), page=page.number)
            return Failed(reason_of(failure))

    async def _keep(self, page: HeldPage) -> Never:
        ttl = self._place.settings.page_lease_sec
        while True:
            await asyncio.sleep(ttl.total_seconds() / 3)
            try:
                async with self._place.database.transaction() as tx:
                    await pagework.renew(tx, self._hold, [page], ttl=ttl)
            except PenstockError as trouble:
                if trouble.code in _TAKEN_AWAY:
                    raise
                raise_unless_unavailable(trouble)

    async def _give_on(self) -> None:
        await self._place.checkpoints.save(self._hold)
        async with self._place.database.transaction() as tx:
            worker = await hand_over(tx, self._hold)
        log.info("job.handed_over", job=str(self._hold.job_id), to_worker=worker)
