"""Everything about harvests that a process can do, put together once: compile, plan, execute, ask for numbers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from penstock.harvest.calling import (
    Answer,
    Context,
    Credentials,
    Fetcher,
    Order,
    Pacer,
    PageVars,
    Transports,
    render,
)
from penstock.harvest.compiling.compile import Compiled, check_source, compile_spec
from penstock.harvest.compiling.problems import Terms
from penstock.harvest.executing import Executor, Note, Tools
from penstock.harvest.expressions import check_template
from penstock.harvest.planning import CountingEstimator, HistoryEstimator, Planner, Trigger
from penstock.harvest.reading import Reader
from penstock.harvest.registry import store as registry
from penstock.harvest.registry.source import RegisteredSource
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.slices import Span
from penstock.harvest.spec import Sections, Spec
from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import RateGate


def terms_of(source: RegisteredSource) -> Terms:
    return Terms(
        known_codes=source.codes, check_template=check_template, allows_private=source.allows_private
    )  # fmt: skip


def check(source: RegisteredSource) -> list[dict[str, Any]]:
    """Every problem of a source, for `apply` to refuse it."""
    return check_source(source, terms_of(source))


def compile_registered(source: RegisteredSource, trigger: Trigger) -> Compiled:
    endpoint = trigger.endpoint_name or source.default_endpoint
    if endpoint is None:
        raise PenstockError(error_codes.ENDPOINT_UNKNOWN, endpoint=None, endpoints=sorted(source.endpoints))
    run: dict[str, Any] = dict(trigger.run)
    if trigger.params:
        run["params"] = {**run.get("params", {}), **trigger.params}
    return compile_spec(source, endpoint, trigger.operation, run, terms_of(source))


@dataclass(frozen=True, slots=True)
class QuotaLeft:
    """What the gate has left of a source's quotas until tomorrow, what was spent today included."""

    pacer: Pacer

    async def left(self, spec: Spec) -> int | None:
        limits = spec.rate_limit
        found = (await self.pacer.estimate(spec, timedelta(0))).quotas
        hourly = None if limits.quota_hourly is None else int(limits.quota_hourly * (1 - limits.quota_margin))
        known = [found.get("day"), None if hourly is None else found.get("hour", hourly) + 23 * hourly]
        if found.get("day") is None and limits.quota_daily is not None:
            known.append(int(limits.quota_daily * (1 - limits.quota_margin)))
        return min((int(left) for left in known if left is not None), default=None)


@dataclass(frozen=True)
class HarvestDesk:
    """`close` it in the end: it keeps connections to sources."""

    database: Database
    gate: RateGate
    settings: HarvestSettings
    clock: Clock

    @cached_property
    def transports(self) -> Transports:
        return Transports(allow_private=self.settings.allow_private)

    @cached_property
    def pacer(self) -> Pacer:
        return Pacer(self.gate, self.settings, self.clock)

    @cached_property
    def fetcher(self) -> Fetcher:
        credentials = Credentials(self._reference, self.settings.secrets, self.clock)
        return Fetcher(self.transports, credentials, self.pacer, self.clock)

    @cached_property
    def planner(self) -> Planner:
        estimator = CountingEstimator(self._ask_total, HistoryEstimator(self.database))
        return Planner(self.database, self.compile, estimator, self.settings, self.clock, QuotaLeft(self.pacer))

    def executor(
        self, owner: str, sources: Sequence[str] | None = None, tell: Callable[[Note], None] | None = None
    ) -> Executor:
        tools = Tools(self.database, self.fetcher, self.settings, self.clock, tell)
        return Executor(tools, owner=owner, sources=sources)

    async def close(self) -> None:
        await self.transports.close()

    async def source(self, provenance_code: str) -> RegisteredSource:
        async with self.database.transaction() as tx:
            return await registry.load(tx, provenance_code)

    async def compile(self, trigger: Trigger) -> Compiled:
        """In a thread: a large source takes a while, and nobody else should wait for it."""
        return await asyncio.to_thread(compile_registered, await self.source(trigger.provenance_code), trigger)

    async def _reference(self, source: str, code: str) -> Mapping[str, Any] | None:
        """Where the secret of a credential is."""
        credential = (await self.source(source)).credentials.get(code)
        return None if credential is None else credential.reference

    async def _ask_total(self, spec: Spec, sections: Sections, span: Span | None) -> int | None:
        """The number of results of a window, as the source says it."""
        reader = Reader(sections, ids_only=spec.detail is not None and spec.batching.two_phase.enabled)
        page = PageVars(0, sections.pagination.initial_offset, sections.pagination.page_size,
                        sections.pagination.initial_token, sections.pagination.initial_url)  # fmt: skip
        context = Context(now=self.clock.now(), span=span, page=page, params=spec.params)

        async def total(answer: Answer) -> int:
            return await reader.count_aside(answer.body)

        order: Order[int] = Order(
            spec=spec, sections=sections, request=render(sections, context), task="estimate",
            correlation_id=f"estimate-{spec.provenance_code}", operation=spec.operation, read=total,
        )  # fmt: skip
        fetched = await self.fetcher.fetch(order)
        return fetched.page
