"""The pool: a warm template, a fixed number of places that tenants share fairly, and one fresh process for each call.

Invariant: a place is held by one call, from the fork of its process until that process is gone. So however a call ends
it costs nobody else anything, and no process ever sees two callers' bytes. A template that dies takes its processes
with it; their calls are made once more, and the next call starts a new template.
"""

import asyncio
import os
import sys
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
from penstock.kernel.sandbox.places import FairPlaces
from penstock.kernel.sandbox.process import MOST_FILES, Call, Plan, Strength, Template, open_to_read
from penstock.kernel.sandbox.settings import SandboxSettings

Value = TypeVar("Value")
log = structlog.get_logger(__name__)

_MORE_NICE = 5  # for a tenant's second call at once: another tenant's first goes before it


class Sandbox:
    """One pool of processes, bound to the event loop that started it. Pools with other limits are other objects.

    `preload` is imported by the template, which must stay without threads but for `idle_threads` that hold no lock.
    `paths` are further directories where modules are found. Our working directory never is one, unless named: data
    and settings lie there, and modules' places can be read.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        preload: Sequence[str] = (),
        paths: Sequence[Path] = (),
        idle_threads: int = 0,
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self._plan = Plan(settings, tuple(preload), _module_paths(paths), idle_threads)
        self._places: FairPlaces | None = None
        self._template: Template | None = None
        self._starting = asyncio.Lock()

    @property
    def strength(self) -> Strength:
        """What the operating system enforces here; known once started."""
        if self._template is None:
            raise _closed()
        return self._template.strength

    async def start(self) -> None:
        """Starts the template; raises SANDBOX_UNAVAILABLE with the reason, with nothing left running."""
        self._places = FairPlaces(self.settings.workers)
        try:
            template = await self._warm_template()
        except BaseException:
            await self.close()
            raise
        if template.strength is not Strength.FULL:
            log.error("sandbox.is_weak", strength=template.strength, consequence=template.strength.consequence)

    async def close(self) -> None:
        """Ends all processes; calls in progress and callers that wait are refused: it says nothing of their files."""
        places, self._places = self._places, None
        if places is not None:
            places.close(_closed())
        async with self._starting:
            if self._template is not None:
                await self._template.close()
                self._template = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @overload
    async def call(
        self, function: str, *args: Any, files: Sequence[Path] = (), limits: Limits | None = None, tenant: str = ""
    ) -> Outcome[Any]: ...

    @overload
    async def call(
        self,
        function: str,
        *args: Any,
        files: Sequence[Path] = (),
        limits: Limits | None = None,
        tenant: str = "",
        returns: type[Value],
    ) -> Outcome[Value]: ...

    async def call(
        self,
        function: str,
        *args: Any,
        files: Sequence[Path] = (),
        limits: Limits | None = None,
        tenant: str = "",
        returns: Any = Any,
    ) -> Outcome[Any]:
        """Runs `package.module:function(*files, *args)` in a process of its own and tells how it ended.

        Each file is opened here, read-only, and arrives as an open binary file. Arguments are what msgpack
        can carry; the result is checked against `returns`. Places are shared between tenants; waiting for one does
        not count as time. A call that is killed from outside or stalls is made once more: an operator's kill, or
        the system's for want of memory, may have been meant for anybody.
        """
        limits = limits or self.limits
        if not limits.within(self.limits):
            raise ValueError(f"this pool was started with {self.limits}, a call cannot have {limits}")
        if len(files) > MOST_FILES:
            raise ValueError(f"a call takes at most {MOST_FILES} files")
        if self._places is None:
            raise _closed()
        call = Call.of(function, args, limits)
        async with self._places.hold(tenant) as others:
            with ExitStack() as opened:  # only now: those who wait hold no descriptors
                descriptors = []
                for path in files:
                    descriptors.append(open_to_read(path))
                    opened.callback(os.close, descriptors[-1])
                niceness = _MORE_NICE if others else 0
                return await self._run(replace(call, descriptors=descriptors, niceness=niceness), returns)

    async def _run(self, call: Call, returns: Any) -> Outcome[Any]:
        first = await (await self._warm_template()).run(call, returns)
        if first.is_verdict:
            return first
        log.warning("sandbox.call_again", function=call.function, ending=first.ending, message=first.message)
        for descriptor in call.descriptors:
            os.lseek(descriptor, 0, os.SEEK_SET)  # shared with the process, which has read some of it
        again = await (await self._warm_template()).run(call, returns)
        return replace(again, seconds=first.seconds + again.seconds)

    async def _warm_template(self) -> Template:
        """The running template, or a new one. Raises SANDBOX_UNAVAILABLE when it cannot be started."""
        async with self._starting:
            if self._places is None:
                raise _closed()
            if self._template is not None and self._template.is_alive:
                return self._template
            if self._template is not None:
                log.warning("sandbox.template_lost")
                await self._template.close()
                self._template = None
            template = Template(self._plan)
            try:
                await template.start()
            except BaseException:
                await template.close()
                raise
            self._template = template
            return template


def _closed() -> PenstockError:
    return PenstockError(error_codes.SANDBOX_UNAVAILABLE, reason="the sandbox is closed")


def _module_paths(more: Sequence[Path]) -> tuple[str, ...]:
    here = Path.cwd()
    found = [Path(each).absolute() for each in sys.path if each]
    usual = [each for each in found if each != here and each.exists()]
    return tuple(dict.fromkeys(str(each) for each in [*usual, *(each.absolute() for each in more)]))
