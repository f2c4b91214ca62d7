"""The worker role: ARQ jobs, and a look at PostgreSQL every second in case a wake-up was lost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from arq.jobs import deserialize_job_raw
from arq.worker import Worker, func

from penstock.bootstrap import Parts
from penstock.documents.processing import PageProcessor
from penstock.extraction.desk import JOBS
from penstock.extraction.stages import run_stage
from penstock.extraction.turns import TaskTurns
from penstock.kernel.backoff import exponential, pause
from penstock.kernel.errors import PenstockError
from penstock.kernel.queue import Queue
from penstock.kernel.redis import RedisTrouble
from penstock.uploads.direct.attendant import Attendant
from penstock.uploads.direct.desk import WAKE_UP
from penstock.worker.delivery_loop import DeliveryLoop

log = structlog.get_logger(__name__)

_STAGE_SECONDS = 3600.0  # so long the queue remembers that a stage was begun; its lease says whether it goes on


async def run_worker(parts: Parts, stop: asyncio.Event, *, processor: PageProcessor | None = None) -> None:
    """Work until told to stop; then finish what is in hand, hand back the rest, say goodbye.

    With a `processor` the worker also goes through the pages of jobs, and is given orphaned ones.
    """
    deliveries = DeliveryLoop(parts.deliveries())
    rounds = parts.job_rounds(processor) if processor else None
    attendant = Attendant(parts.direct) if parts.direct.bucket else None
    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        heartbeat = parts.heartbeat(takes_jobs=rounds is not None)
        group.create_task(heartbeat.run(done))  # alive until it holds nothing any more
        hands = Hands(deliveries, attendant)
        work = [
            *(group.create_task(_take_jobs(jobs, _grace(parts), stop)) for jobs in _all_jobs(parts, hands, stop)),
            *(group.create_task(each.run(stop)) for each in (deliveries, rounds, attendant) if each),
        ]
        await stop.wait()
        await asyncio.wait(work, timeout=_grace(parts))
        for each in (deliveries, rounds, attendant):
            if each:
                each.hand_back()
        await asyncio.wait(work)
        done.set()


@dataclass(frozen=True, slots=True)
class Jobs:
    """What is taken from one queue."""

    queue: Queue
    functions: Mapping[str, Callable[..., Awaitable[None]]]
    at_once: int
    timeout: float
    in_hand: "InHand | None" = None


class InHand:
    """Work that outlives the queue it was taken from: ARQ ends all its jobs when Redis goes away, but what was begun
    elsewhere (a document being read, a question asked) has its price. Its lease says whose it is, not the queue."""

    def __init__(self, at_once: int, turns: TaskTurns) -> None:
        self.at_once = at_once
        self._turns = turns
        self._places = asyncio.Semaphore(at_once)
        self.tasks: set[asyncio.Task[Any]] = set()

    async def run(self, task_id: int) -> None:
        """Run the task whose turn it is, which need not be the one that the wake-up names."""
        task = asyncio.create_task(self._in_turn(task_id))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        await asyncio.shield(task)

    async def _in_turn(self, task_id: int) -> None:
        async with self._places:
            try:
                await self._turns.run_next(task_id)
            except PenstockError as away:  # the database, before there was anything to settle
                log.warning("worker.job_not_begun", reason=str(away))

    async def hand_back(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Hands:
    """Who is woken up by small jobs."""

    deliveries: DeliveryLoop
    attendant: Attendant | None


def _all_jobs(parts: Parts, hands: Hands, stop: asyncio.Event) -> list[Jobs]:
    async def deliver(context: dict[str, Any], slot: int) -> None:  # noqa: ARG001  ARQ's signature
        hands.deliveries.poke()

    async def direct_attend(context: dict[str, Any]) -> None:  # noqa: ARG001
        if hands.attendant:
            hands.attendant.poke()

    turns = TaskTurns(parts.etl, lambda stage, task_id: run_stage(parts.workshop, stage, task_id), stop)
    in_hand = InHand(parts.settings.etl.worker_count, turns)

    async def etl_stage(context: dict[str, Any], task_id: int) -> None:  # noqa: ARG001
        await in_hand.run(task_id)

    etl = dict.fromkeys(JOBS.values(), etl_stage)
    return [
        Jobs(parts.queue, {"deliver": deliver, WAKE_UP: direct_attend}, at_once=8, timeout=300),
        Jobs(parts.etl.queue, etl, in_hand.at_once, _STAGE_SECONDS, in_hand),
    ]


def _grace(parts: Parts) -> float:
    """Time to finish what is in hand; the rest of the time to leave is for handing back and closing."""
    return parts.settings.runtime.shutdown_seconds.total_seconds() * 0.8


async def _take_jobs(jobs: Jobs, grace: float, stop: asyncio.Event) -> None:
    """ARQ gives up when Redis goes away; we begin again until it is back."""
    trouble = 0
    while not stop.is_set():
        try:
            await _run_arq(jobs, grace, stop)
            trouble = 0
        except RedisTrouble as away:
            trouble += 1
            wait = exponential(trouble, first=0.2, most=5.0)
            log.warning("worker.waiting", reason=str(away), seconds=round(wait, 2))
            await pause(stop, wait)
    if jobs.in_hand is not None:
        await jobs.in_hand.hand_back()


class _PromptWorker(Worker):
    """ARQ's worker with one trip to Redis for a look: it tells what is done and takes what is next. It looks when a job
    is done, not only when its clock ticks: ten looks a second are ten small jobs."""

    def __init__(self, queue: Queue, **options: Any) -> None:
        super().__init__(redis_pool=queue.arq, queue_name=queue.name, **options)
        self._queue = queue
        self._done: list[str] = []  # and not yet told
        self._is_due = asyncio.Event()

    async def main(self) -> None:
        while True:
            self._is_due.clear()
            await self._poll_iteration()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.poll_delay_s):
                    await self._is_due.wait()

    async def _poll_iteration(self) -> None:
        want = self.max_jobs - len(self.tasks) if self.allow_pick_jobs else 0
        for job_id, body in await self._look(want):
            task = self.loop.create_task(self._run(job_id, body))
            self.tasks[job_id] = task
            task.add_done_callback(partial(self._leave, job_id))
        await self.record_health()

    async def _look(self, want: int) -> list[tuple[str, bytes]]:
        if want <= 0 and not self._done:
            return []
        done, self._done = self._done, []
        try:
            return await self._queue.look(done, want, timedelta(seconds=self.in_progress_timeout_s))
        except BaseException:
            self._done += done
            raise

    async def _run(self, job_id: str, body: bytes) -> None:
        """A job that fails is done: what it was to wake us for is in PostgreSQL, and so is what became of it."""
        try:
            name, ids, *_ = deserialize_job_raw(body, deserializer=self.job_deserializer)
            function = self.functions[name]
            async with asyncio.timeout(function.timeout_s):
                await function.coroutine(self.ctx, *ids)
        except asyncio.CancelledError:
            with suppress(*RedisTrouble):
                await asyncio.shield(self._queue.hand_back(job_id))
            raise
        except Exception:  # whatever a job raises ends the job alone
            log.exception("worker.job_failed", job=job_id)
        self._done.append(job_id)

    def _leave(self, job_id: str, task: asyncio.Task[None]) -> None:  # noqa: ARG002  asyncio's signature
        self.tasks.pop(job_id, None)
        self._is_due.set()

    async def tell_the_last(self) -> None:
        """What was done since the last look; untold, it is found to be nothing by whoever takes it in an hour."""
        with suppress(*RedisTrouble):
            await self._look(0)


async def _run_arq(jobs: Jobs, grace: float, stop: asyncio.Event) -> None:
    worker = _PromptWorker(
        jobs.queue,
        functions=[
            func(run, name=name, keep_result=0, max_tries=1, timeout=jobs.timeout)  # type: ignore[arg-type]
            for name, run in jobs.functions.items()
        ],
        job_serializer=jobs.queue.arq.job_serializer,
        job_deserializer=jobs.queue.arq.job_deserializer,
        handle_signals=False,
        poll_delay=0.1,
        max_jobs=jobs.at_once,
        log_results=False,
    )
    running = asyncio.create_task(worker.async_run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        worker.allow_pick_jobs = False
        begun = [*worker.tasks.values(), *(jobs.in_hand.tasks if jobs.in_hand else ())]
        if begun:
            await asyncio.wait(begun, timeout=grace)
    finally:
        stopping.cancel()
        while not running.done():  # first of all: it could begin what nobody waits for
            running.cancel()
            await asyncio.wait({running}, timeout=1.0)
        begun = list(worker.tasks.values())
        for task in begun:
            task.cancel()
        await asyncio.gather(running, stopping, *begun, return_exceptions=True)
        await worker.tell_the_last()
