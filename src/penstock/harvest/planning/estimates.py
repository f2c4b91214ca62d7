"""How many results a window holds: the source is asked where it can count, experience is asked where it cannot.

Invariant: one plan asks the source at most so often as the settings say, and never twice about the same window.
"""

from collections.abc import Awaitable, Callable

import structlog

from penstock.harvest.calling import for_count
from penstock.harvest.planning import store
from penstock.harvest.planning.trigger import Compiled, Estimator
from penstock.harvest.slices import Span
from penstock.harvest.spec import Sections, Spec
from penstock.kernel import error_codes
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError

log = structlog.get_logger(__name__)

Ask = Callable[[Spec, Sections, Span | None], Awaitable[int | None]]


class NoEstimator:
    """Where nothing is known."""

    async def count(self, compiled: Compiled, span: Span | None) -> int | None:  # noqa: ARG002  a port
        return None


class HistoryEstimator:
    """Items per second of window, as seen in the newest runs of the same source, endpoint and operation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, compiled: Compiled, span: Span | None) -> int | None:
        if span is None:
            return None
        async with self._database.transaction() as tx:
            rate = await store.items_per_second(tx, compiled.spec)
        return None if rate is None else round(rate * (span.end - span.start).total_seconds())


class CountingEstimator:
    """Asks the source with its `count` section. `ask` renders, sends and reads: it answers with the total."""

    def __init__(self, ask: Ask, otherwise: Estimator) -> None:
        self._ask = ask
        self._otherwise = otherwise

    async def count(self, compiled: Compiled, span: Span | None) -> int | None:
        if compiled.spec.count is not None:
            try:
                total = await self._ask(compiled.spec, for_count(compiled.spec), span)
            except PenstockError as failure:
                if failure.code is error_codes.DB_UNAVAILABLE:
                    raise
                log.warning("estimate.failed", source=compiled.spec.provenance_code, reason=str(failure))
            else:
                if total is not None:
                    return total
        return await self._otherwise.count(compiled, span)


class PlanEstimates:
    """The estimates of one plan."""

    def __init__(self, estimator: Estimator, compiled: Compiled, most: int) -> None:
        self._estimator = estimator
        self._compiled = compiled
        self._left = most
        self._known: dict[Span | None, int | None] = {}
        self.notes: list[str] = []

    async def count(self, span: Span | None) -> int | None:
        if span not in self._known:
            self._known[span] = await self._new(span)
        return self._known[span]

    async def _new(self, span: Span | None) -> int | None:
        if self._left <= 0:
            if "countsUsedUp" not in self.notes:
                self.notes.append("countsUsedUp")
            return None
        self._left -= 1
        counted = await self._estimator.count(self._compiled, span)
        if counted is None and "noEstimate" not in self.notes:
            self.notes.append("noEstimate")
        return counted
