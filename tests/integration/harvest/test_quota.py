"""When a provider gives little: plans stop in time, partitions rest, and the harvest goes before everything else."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.standins import Library
from tests.support.harvesting import CALM, DETAILS, past, written

from penstock.harvest.desk import HarvestDesk
from penstock.harvest.spec import Operation
from penstock.harvest.states import PlanStatus
from penstock.kernel.rategate import RateGate
from penstock.kernel.redis import Keys

MARGIN = {"quotaMargin": 0.0}


def source(**limits):
    return written("offset", linkedEndpoint="details", endpoints={"details": DETAILS}, pagination={"pageSize": 100},
                   rateLimit={**MARGIN, "sharedByEndpoints": True, **limits})  # fmt: skip


def library(days: float = 8, records: int = 80) -> Library:
    made = Library(records, days=days, seed=6, habits=CALM)
    past(made, beyond=timedelta(hours=2))
    return made


async def resting(here, operation: str = "HARVEST") -> dict:
    rows = await here.rows(
        "select not_before > now() + interval '3 seconds' as rests, reason from ing_partition"
        " where operation_code = %s",
        operation,
    )
    return rows[0]


class TestPlanning:
    async def test_a_plan_promises_no_more_than_the_quota_and_says_that_there_is_more(self, beside):
        made = library()
        async with beside("generic", made, document=source(quotaDaily=4)) as here:
            outcome = await here.plan(since=made.start)
            assert outcome.status is PlanStatus.PARTIAL
            assert outcome.tasks == 4
            assert here.api.counts.total == 0

    @pytest.mark.parametrize(("operation", "tasks"), [(Operation.HARVEST, 5), (Operation.BACKFILL, 3)])
    async def test_a_backfill_leaves_a_part_of_the_quota_to_the_harvest(self, beside, operation, tasks):
        made = library()
        async with beside("generic", made, document=source(quotaDaily=5, quotaReserve=0.2)) as here:
            outcome = await here.plan(operation=operation, since=made.start)
            assert (outcome.status, outcome.tasks) == (PlanStatus.PARTIAL, tasks)


class TestExecuting:
    async def test_when_the_quota_is_used_up_the_partition_rests_and_nothing_is_lost(self, beside, redis_client):
        made = library()
        async with beside("generic", made, document=source(quotaDaily=4)) as here:
            outcome = await here.harvest(since=made.start, until=made.end)
            assert await here.tasks() == {"SUCCEEDED": 4}
            unaware = RateGate(redis_client, Keys("unaware"))  # a planner that does not know yet what was used
            await HarvestDesk(here.database, unaware, here.desk.settings, here.desk.clock).planner.go_on(
                outcome.plan_id
            )
            assert await here.tasks() == {"SUCCEEDED": 4, "QUEUED": 4}

            async def rests() -> bool:
                return (await resting(here))["rests"]

            await here.work_until(rests)
            assert here.api.counts.total == 4
            assert await here.tasks() == {"SUCCEEDED": 4, "QUEUED": 4}
            assert (await resting(here))["reason"] == "quota_exhausted"
            assert len(await here.stored()) < len(here.served())
            tomorrow = RateGate(redis_client, Keys("tomorrow"))
            here.desk = HarvestDesk(here.database, tomorrow, here.desk.settings, here.desk.clock)
            await here.rows("update ing_partition set not_before = now() returning 1")
            await here.rows("update ing_task set scheduled_at = now() where status_code = 'QUEUED' returning 1")
            await here.drain()
            assert await here.stored() == here.served()
            await here.desk.close()

    async def test_what_is_left_goes_to_the_harvest_then_to_the_update_then_to_the_backfill(self, beside):
        made = library(days=3, records=60)
        limits = {"rateLimit": {"quotaDaily": 1000}}
        async with beside("generic", made, document=source(quotaReserve=0.3)) as here:
            middle = made.start + timedelta(days=2)
            await here.harvest(since=middle, until=middle + timedelta(hours=12))
            await here.rows("update ing_record set checked_at = '2020-01-01' returning 1")
            await here.plan(operation=Operation.BACKFILL, since=made.start, until=middle, run=limits)
            await here.plan(operation=Operation.UPDATE, run=limits)
            await here.plan(run=limits)
            answered = len(await here.requests())
            await here.drain()
            order = [row["operation_code"] for row in (await here.requests())[answered:]]
            rows = await here.rows("select operation_code, min(priority) as p from ing_task group by 1 order by 2")
            assert [row["operation_code"] for row in rows] == ["HARVEST", "UPDATE", "BACKFILL"]
            assert set(order) == {"HARVEST", "UPDATE", "BACKFILL"}
            assert order.index("HARVEST") < order.index("BACKFILL")

    async def test_what_the_headers_say_of_the_quota_is_believed(self, beside):
        made = library(days=4)
        async with beside("generic", made, document=source(headerAdaptive=True)) as here:
            left = [6]

            def tell(request, response) -> None:
                left[0] -= 1
                reset = int((datetime.now(UTC) + timedelta(hours=3)).timestamp())
                response.headers |= {"X-RateLimit-Limit": "6", "X-RateLimit-Remaining": str(max(0, left[0])),
                                     "X-RateLimit-Reset": str(reset)}  # fmt: skip

            here.api.decorate = tell
            made.now = datetime.now(UTC)
            since = made.now - timedelta(days=12)
            await here.plan(since=since, run={"window": {"maxWindow": "1d"}})

            async def rests() -> bool:
                return (await resting(here))["rests"]

            await here.work_until(rests)
            assert here.api.counts.total <= 6 + 3  # those that were on their way
            assert (await here.tasks())["QUEUED"] >= 1
