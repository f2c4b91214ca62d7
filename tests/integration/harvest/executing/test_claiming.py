"""Who gets which task: urgent first, fair over partitions, within every limit, once."""

import asyncio
from collections import Counter
from datetime import timedelta

import psycopg
import pytest
from tests.support.harvest_queue import claimer, queue_tasks, states

from penstock.harvest.executing import settle, store
from penstock.harvest.executing.claim import Held, begin
from penstock.harvest.executing.settle import Ending
from penstock.harvest.states import RunStatus, TaskStatus
from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

DONE = Ending(RunStatus.SUCCEEDED, TaskStatus.SUCCEEDED, "finished")
BACK = Ending(RunStatus.PARTIAL, TaskStatus.QUEUED, "stopped")


async def claim_all(database: Database, claimers: int, *, total: int = 100) -> list[Held]:
    """Everything that can be claimed at once, by several claimers that race."""

    async def greedy(number: int) -> list[Held]:
        found, mine = [], claimer(database, f"e{number}", total=total)
        while (held := await mine.claim()) is not None:
            found.append(held)
        return found

    return [held for part in await asyncio.gather(*(greedy(n) for n in range(claimers))) for held in part]


class TestOrder:
    async def test_a_smaller_number_is_more_urgent_then_the_earlier_then_the_older(self, database: Database):
        await queue_tasks(database, "b", 1, operation="BACKFILL", priority=300)
        await queue_tasks(database, "a", 2, priority=100)
        mine = claimer(database)
        operations = [(await mine.claim()).task["operation_code"] for _ in range(3)]
        assert operations == ["HARVEST", "HARVEST", "BACKFILL"]

    async def test_what_is_scheduled_for_later_waits(self, database: Database):
        await queue_tasks(database, "a", 1, later=7200)
        assert await claimer(database).claim() is None

    async def test_a_partition_that_rests_is_passed_over(self, database: Database):
        await queue_tasks(database, "a", 1)
        async with database.transaction() as tx:
            await store.hold_partition(tx, ("a", "works", "HARVEST"), 60, "429")
        assert await claimer(database).claim() is None

    async def test_a_claimed_task_has_its_run(self, database: Database):
        await queue_tasks(database, "a", 1)
        held = await claimer(database).claim()
        async with database.transaction() as tx:
            run = await fetch_one(tx, "select * from ing_task_run where id = %s", (held.run_id,))
        assert (run["task_id"], run["attempt_no"], run["status_code"]) == (held.task_id, 1, "PLANNED")
        assert await states(database) == {"DISPATCHED": 1}


class TestLimits:
    async def test_each_task_is_claimed_once_by_many(self, database: Database):
        await queue_tasks(database, "a", 40, c_max=100)
        held = await claim_all(database, 8)
        assert sorted(each.task_id for each in held) == sorted({each.task_id for each in held})
        assert len(held) == 40

    async def test_a_partition_never_runs_more_than_its_limit(self, database: Database):
        await queue_tasks(database, "a", 30, c_max=3)
        assert len(await claim_all(database, 8)) == 3

    async def test_a_source_never_runs_more_than_its_connections(self, database: Database):
        await queue_tasks(database, "a", 10, c_max=4, source_max=2)
        await queue_tasks(database, "a", 10, operation="BACKFILL", c_max=4, source_max=2)
        assert len(await claim_all(database, 6)) == 2

    async def test_all_sources_together_never_run_more_than_the_total(self, database: Database):
        for source in "abcd":
            await queue_tasks(database, source, 10, c_max=4)
        assert len(await claim_all(database, 8, total=5)) == 5

    async def test_executors_that_begin_together_on_new_sources_never_wait_in_a_circle(self, database: Database):
        for number in range(12):
            await queue_tasks(database, f"source{number}", 2, c_max=100)
        assert len(await claim_all(database, 8, total=1)) == 1  # all the others look everywhere

    async def test_a_lower_total_holds_though_there_are_places_from_before(self, database: Database):
        await queue_tasks(database, "a", 10, c_max=10)
        first = await claimer(database, total=8).claim()
        async with database.transaction() as tx:
            await settle.end(tx, first, BACK, source=TaskStatus.DISPATCHED)
        assert len(await claim_all(database, 3, total=2)) == 2

    async def test_a_place_is_forgotten_only_when_nobody_holds_its_task(self, database: Database):
        await queue_tasks(database, "a", 2, c_max=2)
        held = await claimer(database).claim()
        async with database.transaction() as tx:
            assert await store.free_forgotten_slots(tx) == 0
            await tx.execute("update ing_slot set task_id = %s where task_id is null and scope = '*' and slot_no = 9",
                             (held.task_id + 1,))  # fmt: skip
            assert await store.free_forgotten_slots(tx) == 1

    async def test_a_task_that_is_let_go_frees_its_places(self, database: Database):
        await queue_tasks(database, "a", 10, c_max=1, source_max=1)
        mine = claimer(database, total=1)
        for _ in range(3):
            held = await mine.claim()
            assert await mine.claim() is None
            async with database.transaction() as tx:
                await begin(tx, held)
            async with database.transaction() as tx:
                await settle.end(tx, held, DONE)
        assert await states(database) == {"SUCCEEDED": 3, "QUEUED": 7}


class TestFairness:
    async def test_a_source_with_many_tasks_takes_no_more_than_its_turn(self, database: Database):
        await queue_tasks(database, "slow", 2000, c_max=4)
        await queue_tasks(database, "fast", 20, c_max=4)
        mine, served = claimer(database, total=2), Counter()
        for _ in range(40):
            held = await mine.claim()
            served[held.task["provenance_code"]] += 1
            async with database.transaction() as tx:
                await begin(tx, held)
            async with database.transaction() as tx:
                await settle.end(tx, held, DONE)
        assert served["fast"] >= 8

    async def test_free_places_go_first_to_who_uses_the_smallest_share(self, database: Database):
        await queue_tasks(database, "a", 50, c_max=8)
        await queue_tasks(database, "b", 50, c_max=8)
        held = await claim_all(database, 1, total=8)
        assert Counter(each.task["provenance_code"] for each in held) == {"a": 4, "b": 4}


class TestLosing:
    async def test_a_silent_executors_task_goes_back_and_its_run_has_failed(self, database: Database):
        await queue_tasks(database, "a", 1, c_max=1)
        held = await claimer(database, "dead", ttl=-1).claim()
        assert await settle.take_from_the_silent(database, most_attempts=3) == 1
        again = await claimer(database, "next").claim()
        assert again.task_id == held.task_id
        async with database.transaction() as tx:
            runs = await fetch_all(tx, "select status_code, error from ing_task_run order by attempt_no")
        assert [run["status_code"] for run in runs] == ["FAILED", "PLANNED"]
        assert runs[0]["error"]["code"] == "EXECUTOR_LOST"

    async def test_who_was_silent_too_long_can_no_longer_write(self, database: Database):
        await queue_tasks(database, "a", 1)
        late = await claimer(database, "late", ttl=-1).claim()
        async with database.transaction() as tx:
            await begin(tx, late)
        await settle.take_from_the_silent(database, most_attempts=9)
        await claimer(database, "next").claim()
        with pytest.raises(PenstockError) as refused:
            async with database.transaction() as tx:
                await settle.end(tx, late, DONE)
        assert refused.value.code is error_codes.STATE_CHANGED

    async def test_who_renews_in_time_is_left_alone(self, database: Database):
        await queue_tasks(database, "a", 1)
        await claimer(database).claim()
        assert await settle.take_from_the_silent(database, most_attempts=3) == 0
        assert await states(database) == {"DISPATCHED": 1}

    async def test_runs_without_fruit_add_up_until_one_bears_some(self, database: Database):
        await queue_tasks(database, "a", 1)
        mine, attempts = claimer(database), []
        for is_fruitless in (True, True, False):
            held = await mine.claim()
            ending = Ending(RunStatus.FAILED, TaskStatus.QUEUED, "failed", is_fruitless=is_fruitless)
            async with database.transaction() as tx:
                await settle.end(tx, held, ending, source=TaskStatus.DISPATCHED)
                row = await fetch_one(tx, "select attempts from ing_task")
            attempts.append(row["attempts"])
        assert attempts == [1, 2, 0]

    async def test_a_task_that_kills_every_executor_fails_in_the_end(self, database: Database):
        await queue_tasks(database, "a", 1)
        for _ in range(3):
            assert await claimer(database, "doomed", ttl=-1).claim() is not None
            await settle.take_from_the_silent(database, most_attempts=3)
        assert await states(database) == {"FAILED": 1}

    async def test_a_task_given_back_waits_as_long_as_was_said(self, database: Database):
        await queue_tasks(database, "a", 1)
        mine = claimer(database)
        held = await mine.claim()
        later = Ending(RunStatus.PARTIAL, TaskStatus.QUEUED, "rate_limited", after=timedelta(minutes=5))
        async with database.transaction() as tx:
            await settle.end(tx, held, later, source=TaskStatus.DISPATCHED)
        assert await mine.claim() is None
        async with database.transaction() as tx:
            left = await store.live_tasks(tx, ["a"])
        assert (left["live"], left["held"]) == (1, 0)

    async def test_a_new_run_begins_where_the_last_one_ended(self, database: Database):
        await queue_tasks(database, "a", 1)
        mine = claimer(database)
        for offset in (20, 40):
            held = await mine.claim()
            async with database.transaction() as tx:
                await begin(tx, held)
                await store.note_progress(tx, held.run_id, f'{{"offset": {offset}}}', {"reqCount": 2})
            async with database.transaction() as tx:
                await settle.end(tx, held, BACK)
        again = await mine.claim()
        async with database.transaction() as tx:
            run = await fetch_one(tx, "select checkpoint, stats from ing_task_run where id = %s", (again.run_id,))
        assert run == {"checkpoint": {"offset": 40}, "stats": {}}


class TestMakingSlots:
    async def test_slots_that_were_rolled_back_are_made_again(self, database: Database):
        """An executor that believed in slots which do not exist would never claim again."""
        await queue_tasks(database, "a", 1)
        mine = claimer(database)
        async with database.transaction() as tx:
            await tx.execute("alter table ing_task_run rename executor to away")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            await mine.claim()
        async with database.transaction() as tx:
            await tx.execute("alter table ing_task_run rename away to executor")
        assert await mine.claim() is not None


class TestManyRows:
    async def test_no_table_is_read_whole_to_claim_and_to_go_on(self, database: Database):
        """Tables that hold everything that ever was: what a task costs must not grow with them."""
        await queue_tasks(database, "a", 20_000)
        await queue_tasks(database, "b", 20_000)
        async with database.transaction() as tx:
            await tx.execute(
                "insert into ing_task_run (task_id, provenance_code, endpoint_name, operation_code, attempt_no,"
                " status_code, executor) select n, 'a', 'works', 'HARVEST', 0, 'FAILED', 'x'"
                " from generate_series(1, 20000) n"
            )
            await tx.execute(
                "insert into ing_task_run_batch (run_id, task_id, slice_id, plan_id, expr_hash, provenance_code,"
                " endpoint_name, operation_code, batch_no, status_code, idempotent_key, ids_hash)"
                " select r.id, r.task_id, 1, 1, 'x', 'a', 'works', 'HARVEST', 1, 'SUCCEEDED', r.id::text, 'abcdefgh'"
                " from ing_task_run r"
            )
        async with database.statement() as tx:
            await tx.execute("analyze ing_task, ing_task_run, ing_task_run_batch")
        held = await claimer(database).claim()
        async with database.transaction() as tx:
            await store.partitions_with_work(tx, None)
            limits = {"*": 10, "a": 10}
            await store.lock_next_task(tx, {**held.task, "provenance_code": "b"}, limits)
            await store.silent_tasks(tx, 100)
            await store.open_runs(tx, held.task_id)
            assert await store.ids_seen(tx, 77) == [(1, b"abcdefgh")]
            read = await fetch_all(
                tx, "select relname from pg_stat_xact_user_tables where seq_scan > 0 and relname in"
                " ('ing_task', 'ing_task_run', 'ing_task_run_batch')"
            )  # fmt: skip
        assert read == []
