"""How the parts we stand on are doing: one question to each, all at once, each with a deadline.

A probe that does not come back is left hanging, counted as down, and not asked again until it does, so
that a frozen server costs one connection however often health is asked for. Answers are shared for a
moment: health is public, and asking a thousand times a second must not become load.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import structlog
from pydantic import ByteSize, Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel.clock import Clock
from penstock.kernel.db import Database, fetch_one
from penstock.kernel.disk import free_bytes
from penstock.kernel.errors import Kind, PenstockError
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.redis import Redis
from penstock.kernel.sandbox import Sandbox, Strength
from penstock.kernel.settings import SettingsGroup

log = structlog.get_logger(__name__)
_PATIENCE_SECONDS = 2.0  # so that health always answers within five
_SHARED_SECONDS = 0.5


class HealthStatus(StrEnum):
    """Of the whole."""

    HEALTHY = "healthy"  # every component is ok
    DEGRADED = "degraded"  # something is away that we can do without for a while
    UNHEALTHY = "unhealthy"  # nothing can be promised: the database is away


class ComponentStatus(StrEnum):
    """Of one thing we stand on."""

    OK = "ok"
    DEGRADED = "degraded"  # works, but look at it soon
    DOWN = "down"
    CIRCUIT_OPEN = "circuit_open"  # we have stopped asking for a while


class HealthSettings(SettingsGroup):
    """When a disk is too full."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_HEALTH_")

    disk_low: ByteSize = Field(ByteSize(1 << 30), description="Free space below which the disk is degraded")
    disk_full: ByteSize = Field(ByteSize(100 << 20), description="Free space below which the disk is down")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    status: ComponentStatus = ComponentStatus.OK
    reason: str | None = None  # for people; says nothing about addresses or accounts


@dataclass(frozen=True, slots=True)
class Component:
    """A finding and how long it took."""

    status: ComponentStatus
    latency_ms: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The whole and its components."""

    status: HealthStatus
    components: Mapping[str, Component]


Check = Callable[[], Awaitable[Finding]]


@dataclass(slots=True)
class _Probe:
    """One component's check; at most one question is open at a time."""

    name: str
    check: Check
    clock: Clock
    patience: float
    task: asyncio.Task[Component] | None = field(default=None)

    async def ask(self) -> Component:
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run(), name=f"health {self.name}")
        await asyncio.wait({self.task}, timeout=self.patience)
        if self.task.done():
            return self.task.result()
        return Component(ComponentStatus.DOWN, self.patience * 1000, f"no answer within {self.patience:g} s")

    async def _run(self) -> Component:
        started = self.clock.monotonic()
        try:
            finding = await self.check()
        except Exception as wrong:  # noqa: BLE001  whatever a component throws, it is down; health itself must answer
            log.warning("health.check_failed", component=self.name, reason=str(wrong))
            finding = Finding(ComponentStatus.DOWN, "does not answer")
        return Component(finding.status, round((self.clock.monotonic() - started) * 1000, 1), finding.reason)


class Health:
    """`report()` for the whole; `vital` names the components without which nothing works."""

    def __init__(
        self, checks: Mapping[str, Check], clock: Clock, *, vital: frozenset[str], patience: float = _PATIENCE_SECONDS
    ) -> None:
        self._probes = [_Probe(name, check, clock, patience) for name, check in checks.items()]
        self._clock = clock
        self._vital = vital
        self._asking: asyncio.Task[Report] | None = None
        self._asked_at = float("-inf")

    async def report(self) -> Report:
        """All components, asked together; callers within half a second share one answer."""
        stale = self._clock.monotonic() - self._asked_at >= _SHARED_SECONDS
        if self._asking is None or (self._asking.done() and stale):
            self._asked_at = self._clock.monotonic()
            self._asking = asyncio.create_task(self._ask_all(), name="health")
        return await asyncio.shield(self._asking)

    async def close(self) -> None:
        tasks = [task for task in (self._asking, *(probe.task for probe in self._probes)) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_all(self) -> Report:
        answers = await asyncio.gather(*(probe.ask() for probe in self._probes))
        components = {probe.name: answer for probe, answer in zip(self._probes, answers, strict=True)}
        return Report(self._overall(components), components)

    def _overall(self, components: Mapping[str, Component]) -> HealthStatus:
        if any(components[name].status is ComponentStatus.DOWN for name in self._vital):
            return HealthStatus.UNHEALTHY
        if any(component.status is not ComponentStatus.OK for component in components.values()):
            return HealthStatus.DEGRADED
        return HealthStatus.HEALTHY


def database_check(database: Database) -> Check:
    async def check() -> Finding:
        async with database.transaction() as tx:
            await tx.execute("select 1")
        return Finding()

    return check


def schema_check(database: Database, newest: str) -> Check:
    """Down until the migrations this code needs have run. A newer database is fine: releases roll."""

    async def check() -> Finding:
        async with database.transaction() as tx:
            present = await fetch_one(tx, "select to_regclass('alembic_version') is not null as yes")
            row = await fetch_one(tx, "select version_num from alembic_version") if present and present["yes"] else None
        current = row["version_num"] if row else None
        if current is None or current < newest:
            return Finding(ComponentStatus.DOWN, f"the database is at revision {current}, this release needs {newest}")
        return Finding()

    return check


def redis_check(redis: Redis) -> Check:
    async def check() -> Finding:
        await redis.ping()
        return Finding()

    return check


def disk_check(path: Path, settings: HealthSettings) -> Check:
    """Free space where the data directory is, or will be."""

    async def check() -> Finding:
        free = await asyncio.to_thread(free_bytes, path)
        if free < settings.disk_full:
            return Finding(ComponentStatus.DOWN, f"{ByteSize(free).human_readable()} free")
        if free < settings.disk_low:
            return Finding(ComponentStatus.DEGRADED, f"{ByteSize(free).human_readable()} free")
        return Finding()

    return check


def sandbox_check(sandbox: Sandbox) -> Check:
    """Degraded where the kernel enforces less than it could around the processes that read strangers' files."""

    async def check() -> Finding:
        strength = sandbox.strength
        return Finding() if strength is Strength.FULL else Finding(ComponentStatus.DEGRADED, strength.consequence)

    return check


def store_check(store: ObjectStore) -> Check:
    """Asks for an object that need not exist: a store that says so is well."""

    async def check() -> Finding:
        try:
            await store.head("health")
        except PenstockError as answer:
            if answer.kind is not Kind.NOT_FOUND:
                raise
        return Finding()

    return check
