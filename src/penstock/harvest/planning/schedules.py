"""Schedules: each due time makes one trigger over all schedulers, and times that were missed count as one.

The trigger's key is the schedule and its due time, so that whoever is killed between planning and writing down the next
time plans nothing twice: the next scheduler finds the same trigger and goes on with its plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from cronsim import CronSim, CronSimError

from penstock.harvest.planning import store, store_schedules
from penstock.harvest.planning.plan import Planner
from penstock.harvest.planning.trigger import Candidates, Trigger
from penstock.harvest.schedule_params import CandidateKind, read_params
from penstock.harvest.spec import Operation
from penstock.kernel import error_codes, failpoints
from penstock.kernel.errors import Kind, PenstockError, reason_of
from penstock.kernel.scheduler import Duty, Fence

log = structlog.get_logger(__name__)

_AT_ONCE = 100


def check_cron(text: str) -> str | None:
    """What is wrong with it, if anything."""
    if len(text.split()) != 5:
        return "a cron line has five fields: minute, hour, day of the month, month, day of the week"
    try:
        next(CronSim(text, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as wrong:
        return str(wrong)
    except StopIteration:
        return "it never comes due"
    return None


def next_run(cron: str | None, every: timedelta | None, due: datetime, now: datetime) -> datetime:
    """The first time after now."""
    if cron is not None:
        return next(CronSim(cron, now.astimezone(UTC)))
    if every is None or every <= timedelta(0):
        raise PenstockError(error_codes.SOURCE_FILE_INVALID, problem="a schedule has neither cron nor every")
    return due + max(1, (now - due) // every + 1) * every


@dataclass(frozen=True, slots=True)
class Schedules:
    """The two duties of a planner."""

    planner: Planner

    def duties(self) -> list[Duty]:
        every = self.planner.settings.plan_seconds
        return [
            Duty("harvest.schedules", every, self.trigger_due),
            Duty("harvest.plans", every, self.go_on),
        ]

    async def trigger_due(self, fence: Fence) -> None:
        async with self.planner.database.transaction() as tx:
            due = await store_schedules.due(tx, self.planner.clock.now(), _AT_ONCE)
        for schedule in due:
            await self._trigger(fence, schedule)

    async def _trigger(self, fence: Fence, schedule: Mapping[str, Any]) -> None:
        error = None
        try:
            await self.planner.plan(trigger_of(schedule))
        except PenstockError as failure:
            if failure.code is error_codes.DB_UNAVAILABLE:
                raise
            error = reason_of(failure)
            log.warning("schedule.failed", source=schedule["provenance_code"], reason=error)
        except Exception as failure:  # one schedule's fault must not keep the others waiting
            error = reason_of(failure)
            log.exception("schedule.stumbled", source=schedule["provenance_code"])
        failpoints.reach("schedule.planned")
        now = self.planner.clock.now()
        async with self.planner.database.transaction() as tx:
            await fence.hold(tx)
            following = _following(schedule, now)
            await store_schedules.settle(tx, schedule, following, now, error)

    async def go_on(self, fence: Fence) -> None:
        """With plans that wait for room, and with those whose planner died."""
        async with self.planner.database.transaction() as tx:
            await fence.hold(tx)
            waiting = await store.plans_to_go_on_with(tx, self.planner.settings.plan_stall_seconds, _AT_ONCE)
        for plan_id in waiting:
            try:
                await self.planner.go_on(plan_id)
            except PenstockError as failure:
                if failure.kind is Kind.UNAVAILABLE:
                    raise
                log.warning("plan.failed", plan=plan_id, reason=reason_of(failure))
            except Exception:  # as above
                log.exception("plan.stumbled", plan=plan_id)


def _following(schedule: Mapping[str, Any], now: datetime) -> datetime:
    """A schedule that cannot be read is looked at again in a day: its error stands in its row."""
    try:
        return next_run(schedule["cron"], schedule["every"], schedule["next_run_at"], now)
    except (CronSimError, StopIteration, PenstockError):
        return now + timedelta(days=1)


def trigger_of(schedule: Mapping[str, Any]) -> Trigger:
    """`since`, `until`, `candidates` and `limit` are about planning; the other parameters go to the source."""
    try:
        read = read_params(schedule["params"])
    except ValueError as wrong:
        raise PenstockError(error_codes.SOURCE_FILE_INVALID, problem=f"params of a schedule: {wrong}") from wrong
    wanted = None
    if read.candidates or read.limit:
        wanted = Candidates(read.candidates or CandidateKind.STALE, read.limit)
    due = schedule["next_run_at"].astimezone(UTC).isoformat()
    place = (schedule["provenance_code"], schedule["endpoint_name"], schedule["operation_code"])
    return Trigger(
        provenance_code=place[0],
        endpoint_name=place[1],
        operation=Operation(place[2]),
        since=read.since,
        until=read.until,
        params=read.for_source,
        scheduler_code="SCHEDULE",
        trigger_type="SCHEDULED",
        idempotent_key=f"schedule:{':'.join(place)}:{due}",
        candidates=wanted,
    )
