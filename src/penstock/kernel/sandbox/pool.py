"""The pool: a fixed number of places, each with a warm worker, and one fair line of callers.

Invariant: a place is always either in the line's hands, held by one call, or being refilled by one task. So
a worker that dies costs its caller a result and the pool nothing; one that cannot be started leaves an empty
place (None), and the caller who gets that place tries again and hears the reason.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import structlog

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox.outcome import Limits, Outcome
from penstock.kernel.sandbox.process import MOST_FILES, Call, Plan, Strength, Worker, open_to_read
from penstock.kernel.sandbox.settings import SandboxSettings

Value = TypeVar("Value")
log = structlog.get_logger(__name__)


class Sandbox:
    """One pool of workers, bound to the event loop that started it. Pools with other limits are other objects.

    `preload` is imported when a worker starts. `paths` are further directories where modules are found. Our
    working directory never is one, unless named: data and settings lie there, and modules' places can be read.
    """

    def __init__(self, settings: SandboxSettings, *, preload: Sequence[str] = (), paths: Sequence[Path] = ()) -> None:
        self.settings = settings
        self.limits = settings.limits
        self._preload = tuple(preload)
        self._paths = _module_paths(paths)
        self._line = _Line()
        self._held: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._plan: Plan | None = None
        self._strength: Strength | None = None

    @property
    def strength(self) -> Strength:
        """What the operating system enforces here; known once started."""
        if self._strength is None:
            raise _closed()
        return self._strength

    async def start(self) -> None:
        """All workers warm, or SANDBOX_UNAVAILABLE with the reason and nothing left running."""
        self._directory, self._line = _passable_directory(), _Line()
        plan = Plan(self.settings, self.limits, self._preload, self._paths, Path(self._directory.name))
        self._plan = plan
        starts = [self._start_worker(plan) for _ in range(self.settings.workers)]
        try:
            # Not a task group, which would interrupt the others in the middle of ending theirs.
            started = await asyncio.gather(*starts, return_exceptions=True)
        except BaseException:
            await self.close()
            raise
        failures = [each for each in started if isinstance(each, BaseException)]
        if failures:
            await self.close()
            raise failures[0]
        for each in started:
            if isinstance(each, Worker):
                self._line.put(each)

    async def close(self) -> None:
        """End all workers; calls in progress and callers in line are refused: it says nothing about their files."""
        self._plan = None
        self._line.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(worker) for worker in tuple(self._held)))
        if self._directory is not None:
            self._directory.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @overload
    async def call(
        self, function: str, *args: Any, files: Sequence[Path] = (), limits: Limits | None = None
    ) -> Outcome[Any]: ...

    @overload
    async def call(
        self,
        function: str,
        *args: Any,
        files: Sequence[Path] = (),
        limits: Limits | None = None,
        returns: type[Value],
    ) -> Outcome[Value]: ...

    async def call(
        self,
        function: str,
        *args: Any,
        files: Sequence[Path] = (),
        limits: Limits | None = None,
        returns: Any = Any,
    ) -> Outcome[Any]:
        """Run `package.module:function(*files, *args)` inside and say how it ended.

        Each file is opened here, read-only, and arrives as an open binary file. Arguments are what msgpack
        can carry; the result is checked against `returns`. Waiting in line does not count as wall time. A call
        that a stranger kills is made once more: an operator's kill, or the system's for want of memory, may have
        been meant for anybody. What is killed twice has earned it.
        """
        limits = limits or self.limits
        if not limits.within(self.limits):
            raise ValueError(f"this pool was started with {self.limits}, a call cannot have {limits}")
        if len(files) > MOST_FILES:
            raise ValueError(f"a call takes at most {MOST_FILES} files")
        with ExitStack() as opened:
            descriptors = []
            for path in files:
                descriptors.append(open_to_read(path))
                opened.callback(os.close, descriptors[-1])
            call = Call.of(function, args, limits, descriptors)
            outcome = await self._run(call, returns)
            if outcome.is_killed:
                log.warning("sandbox.call_killed", function=function, message=outcome.message)
                for descriptor in descriptors:
                    os.lseek(descriptor, 0, os.SEEK_SET)  # shared with the worker, which has read some of it
                again = await self._run(call, returns)
                outcome = replace(again, seconds=outcome.seconds + again.seconds)
            return outcome

    async def _run(self, call: Call, returns: Any) -> Outcome[Any]:
        worker = await self._take()
        begun = time.monotonic()
        try:
            outcome = await worker.call(call, returns)
        finally:
            self._give_back(worker)
        return replace(outcome, seconds=time.monotonic() - begun)

    async def _take(self) -> Worker:
        plan = self._plan
        if plan is None:
            raise _closed()
        while (worker := await self._line.take()) is not None:
            if worker.is_fit():
                return worker
            self._give_back(worker)
        try:
            return await self._start_worker(plan)
        except BaseException:
            self._line.put(None)
            raise

    def _give_back(self, worker: Worker) -> None:
        if self._plan is None:
            return
        worn = worker.calls >= self.settings.calls_per_worker
        if worker.usable and not worn and not worker.grown_beyond(self.settings.growth):
            self._line.put(worker)
            return
        worker.kill()
        task = asyncio.get_running_loop().create_task(self._replace(worker, self._plan))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, worker: Worker, plan: Plan) -> None:
        fresh: Worker | None = None
        try:
            fresh = await self._start_worker(plan)
        except PenstockError as failure:
            log.warning("sandbox.worker_not_replaced", reason=str(failure))
        finally:
            self._line.put(fresh)
        await self._end(worker)

    async def _start_worker(self, plan: Plan) -> Worker:
        if self._plan is not plan:
            raise _closed()
        worker = Worker(plan)
        self._held.add(worker)  # until it is ended, whoever is cancelled meanwhile
        try:
            await worker.get_ready()
        except BaseException:
            await self._end(worker)
            raise
        self._strength = worker.strength
        return worker

    async def _end(self, worker: Worker) -> None:
        await worker.end()
        self._held.discard(worker)


class _Line:
    """Idle workers, or callers who wait for one: first come, first served, handed over directly."""

    def __init__(self) -> None:
        self._idle: deque[Worker | None] = deque()
        self._waiting: deque[asyncio.Future[Worker | None]] = deque()
        self._open = True

    def put(self, worker: Worker | None) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(worker)
                return
        self._idle.append(worker)

    async def take(self) -> Worker | None:
        if not self._open:
            raise _closed()
        if self._idle:
            return self._idle.popleft()
        mine: asyncio.Future[Worker | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                self.put(mine.result())  # handed over in the moment of giving up
            raise

    def close(self) -> None:
        self._open = False
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(_closed())


def _closed() -> PenstockError:
    return PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason="the sandbox is closed")


def _passable_directory() -> tempfile.TemporaryDirectory[str]:
    """Workers of another account pass through it to their own."""
    made = tempfile.TemporaryDirectory(prefix="penstock-sandbox-", ignore_cleanup_errors=True)
    Path(made.name).chmod(0o711)
    return made


def _module_paths(more: Sequence[Path]) -> tuple[str, ...]:
    here = Path.cwd()
    found = [Path(each).absolute() for each in sys.path if each]
    usual = [each for each in found if each != here and each.exists()]
    return tuple(dict.fromkeys(str(each) for each in [*usual, *(each.absolute() for each in more)]))
