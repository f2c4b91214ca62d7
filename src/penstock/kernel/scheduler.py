"""Scheduled work: each duty runs once per period across all schedulers, fenced.

A duty is a row of `schedule`. Whoever claims it when it is due holds a lease; a watchdog renews it while the
duty runs, so the lease is short and still outlives the work. The duty gets a `Fence`: it calls
`fence.hold(tx)` in every transaction that writes. A scheduler that was paused beyond its lease, and whose
duty somebody else took over, fails there instead of writing late. A killed scheduler's duty is taken over
when the lease runs out. Time is PostgreSQL's, so clocks of machines do not matter.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog
from prometheus_client import Counter
from psycopg import sql
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel import error_codes, failpoints, leases
from penstock.kernel.backoff import pause
from penstock.kernel.db import Database, Tx, fetch_one
from penstock.kernel.errors import PenstockError, raise_unless_unavailable, reason_of
from penstock.kernel.leases import Leasable, Lease
from penstock.kernel.settings import SettingsGroup

log = structlog.get_logger(__name__)

_runs = Counter("penstock_duty_runs_total", "Runs of scheduled duties", ["duty", "outcome"])


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof of being the holder, checked where it counts: in the writing transaction."""

    _rows: Leasable
    _lease: Lease

    async def hold(self, tx: Tx) -> None:
        """Raises LEASE_LOST if somebody else has taken over; otherwise nobody can before this commits."""
        await leases.assert_held(tx, self._rows, self._lease)


@dataclass(frozen=True, slots=True)
class Duty:
    """Something to do every so often."""

    name: str
    every: timedelta
    run: Callable[[Fence], Awaitable[None]]
    longest: timedelta = timedelta(hours=1)  # one that hangs is ended then, or nobody would ever run it again


class SchedulerSettings(SettingsGroup):
    """How often schedulers look, and how soon a dead one's duty is taken over."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_SCHEDULER_")

    tick_seconds: timedelta = Field(timedelta(seconds=0.5), description="Time between two looks at what is due")
    lease_seconds: timedelta = Field(
        timedelta(seconds=15), description="After this a dead scheduler's duty is free; a living one renews it"
    )


class Scheduler:
    """Runs duties as they fall due; run as many schedulers as wanted."""

    def __init__(self, database: Database, duties: Sequence[Duty], settings: SchedulerSettings, *, owner: str) -> None:
        self._database = database
        self._duties = duties
        self._settings = settings
        self._owner = owner
        names = ", ".join(sql.Literal(duty.name).as_string() for duty in duties) or "null"
        self._rows = Leasable(
            "schedule", "name", ready=f"name in ({names}) and next_run_at <= clock_timestamp()", order="next_run_at"
        )
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; then running duties are given the chance to end."""
        while not stop.is_set():
            try:
                await self.enrol()
                break
            except PenstockError as away:
                raise_unless_unavailable(away)
                await pause(stop, 1.0)
        while not await pause(stop, self._settings.tick_seconds.total_seconds()):
            try:
                await self.start_due()
            except PenstockError as away:
                raise_unless_unavailable(away)
                log.warning("scheduler.waiting", reason=str(away))
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def enrol(self) -> None:
        """Make sure that every duty has its row."""
        async with self._database.transaction() as tx:
            await tx.execute(
                "insert into schedule (name) select * from unnest(%s::text[]) on conflict do nothing",
                ([duty.name for duty in self._duties],),
            )

    async def start_due(self) -> list[asyncio.Task[None]]:
        """Claim what is due and start it; returns the started runs."""
        self._running = {name: task for name, task in self._running.items() if not task.done()}
        duties = {duty.name: duty for duty in self._duties}
        started = []
        for lease in await self._claim():
            duty = duties[lease.key]
            task = asyncio.create_task(self._carry_out(duty, lease), name=f"duty {duty.name}")
            self._running[duty.name] = task
            started.append(task)
        return started

    async def _claim(self) -> list[Lease]:
        async with self._database.transaction() as tx:
            await leases.expire(tx, self._rows)
            held = await leases.claim(
                tx, self._rows, owner=self._owner, ttl=self._settings.lease_seconds, limit=len(self._duties)
            )
            await tx.execute(
                "update schedule set last_run_at = clock_timestamp() where name = any(%s)",
                ([lease.key for lease in held],),
            )
        return held

    async def _carry_out(self, duty: Duty, lease: Lease) -> None:
        """Run under the watchdog; a lost lease cancels the run."""
        work = asyncio.create_task(self._guarded(duty, lease))
        watchdog = asyncio.create_task(self._keep(duty, lease, work))
        try:
            error = await work
        except asyncio.CancelledError:
            error = "stopped"
        finally:
            watchdog.cancel()
            with suppress(asyncio.CancelledError):
                await watchdog
        failpoints.reach("scheduler.worked")
        await self._end(duty, lease, error)

    async def _guarded(self, duty: Duty, lease: Lease) -> str | None:
        try:
            async with asyncio.timeout(duty.longest.total_seconds()):
                await duty.run(Fence(self._rows, lease))
        except asyncio.CancelledError as failure:  # of something the duty waited for, or of ourselves
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            return reason_of(failure)
        except Exception as failure:  # one duty's fault must not end the scheduler
            log.exception("duty.failed", duty=duty.name)
            return reason_of(failure)
        return None

    async def _keep(self, duty: Duty, lease: Lease, work: asyncio.Task[str | None]) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_seconds.total_seconds() / 3)
            try:
                async with self._database.transaction() as tx:
                    kept = await leases.renew(tx, self._rows, [lease], ttl=self._settings.lease_seconds)
            except PenstockError as away:
                raise_unless_unavailable(away)
                continue
            if not kept:
                log.warning("duty.lease_lost", duty=duty.name)
                work.cancel()
                return

    async def _end(self, duty: Duty, lease: Lease, error: str | None) -> None:
        try:
            async with self._database.transaction() as tx:
                row = await fetch_one(
                    tx,
                    "select clock_timestamp() as now, case when next_run_at + %(every)s > clock_timestamp()"
                    " then next_run_at + %(every)s else clock_timestamp() + %(every)s end as next"
                    " from schedule where name = %(name)s",
                    {"every": duty.every, "name": duty.name},
                )
                if row is None:
                    return
                due = row["now"] if error == "stopped" else row["next"]
                ended = {"next_run_at": due, "last_ended_at": row["now"], "last_error": error}
                await leases.settle(tx, self._rows, lease, ended)
            _runs.labels(duty.name, "failed" if error else "done").inc()
        except PenstockError as failure:
            if failure.code is not error_codes.LEASE_LOST:
                raise_unless_unavailable(failure)
            _runs.labels(duty.name, "lost").inc()
