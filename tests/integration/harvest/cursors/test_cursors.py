"""A cursor says how far everything is stored: never further, whatever the order in which windows are finished."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.harvest import cursors
from penstock.harvest.cursors import Closing, CursorName, Direction, Lineage, Scope
from penstock.harvest.slices import IdBounds, Span
from penstock.harvest.spec import CursorType, Operation
from penstock.kernel.db import Database, Tx, fetch_all

START = datetime(2024, 5, 1, tzinfo=UTC)
FORWARD = CursorName("crossref", "works", Operation.HARVEST, "updated_at", CursorType.TIME, Scope.EXPR, "works")
BACKWARD = CursorName(
    "crossref", "works", Operation.BACKFILL, "updated_at", CursorType.TIME, Scope.CUSTOM, "b1", Direction.BACKFILL
)


def hours(first: float, last: float) -> Span:
    return Span(START + timedelta(hours=first), START + timedelta(hours=last))


def closed_by(task: int) -> Closing:
    return Closing(Lineage(plan_id=1, slice_id=task, task_id=task, run_id=task, batch_id=task))


async def close(database: Database, name: CursorName, span: Span, task: int) -> datetime | None:
    async with database.transaction() as tx:
        return await cursors.close_span(tx, name, span, closed_by(task))


@pytest.fixture
async def forward(database: Database) -> Database:
    async with database.transaction() as tx:
        await cursors.open_cursor(tx, FORWARD, START)
    return database


async def value(database: Database, name: CursorName = FORWARD) -> datetime | None:
    async with database.transaction() as tx:
        found = await cursors.find(tx, name)
    assert found is not None
    assert found.value == (found.instant.isoformat() if found.instant else None)
    return found.instant


class TestForward:
    async def test_a_window_that_touches_the_origin_moves_the_value_to_its_end(self, forward: Database):
        assert await close(forward, FORWARD, hours(0, 6), 1) == START + timedelta(hours=6)

    async def test_a_window_behind_a_gap_moves_nothing_until_the_gap_is_closed(self, forward: Database):
        assert await close(forward, FORWARD, hours(6, 12), 1) == START
        assert await close(forward, FORWARD, hours(18, 24), 2) == START
        assert await close(forward, FORWARD, hours(0, 6), 3) == START + timedelta(hours=12)
        assert await close(forward, FORWARD, hours(12, 18), 4) == START + timedelta(hours=24)

    async def test_closing_again_what_is_closed_never_moves_the_value_back(self, forward: Database):
        await close(forward, FORWARD, hours(0, 12), 1)
        assert await close(forward, FORWARD, hours(0, 1), 2) == START + timedelta(hours=12)
        assert await value(forward) == START + timedelta(hours=12)

    async def test_what_is_not_stored_yet_is_told_in_order(self, forward: Database):
        await close(forward, FORWARD, hours(2, 4), 1)
        await close(forward, FORWARD, hours(6, 8), 2)
        async with forward.transaction() as tx:
            left = await cursors.uncovered(tx, FORWARD, hours(0, 10))
        assert left == [hours(0, 2), hours(4, 6), hours(8, 10)]

    async def test_every_closing_is_an_event_written_once(self, forward: Database):
        for _ in range(2):
            await close(forward, FORWARD, hours(6, 12), 1)
        await close(forward, FORWARD, hours(0, 6), 2)
        async with forward.transaction() as tx:
            events = await cursors.timeline(tx, FORWARD)
        assert [(event["prev_value"], event["new_value"], event["task_id"]) for event in events] == [
            (START.isoformat(), (START + timedelta(hours=12)).isoformat(), 2),
            (START.isoformat(), START.isoformat(), 1),
        ]

    async def test_a_rolled_back_batch_leaves_neither_event_nor_value(self, forward: Database):
        with pytest.raises(RuntimeError):
            async with forward.transaction() as tx:
                await cursors.close_span(tx, FORWARD, hours(0, 6), closed_by(1))
                raise RuntimeError
        assert await value(forward) == START
        async with forward.transaction() as tx:
            assert await cursors.timeline(tx, FORWARD) == []

    async def test_opening_it_again_keeps_its_origin_and_value(self, forward: Database):
        await close(forward, FORWARD, hours(0, 6), 1)
        async with forward.transaction() as tx:
            again = await cursors.open_cursor(tx, FORWARD, START + timedelta(days=9))
        assert (again.origin, again.instant) == (START, START + timedelta(hours=6))

    async def test_many_executors_that_finish_at_once_lose_nothing(self, forward: Database):
        await asyncio.gather(*(close(forward, FORWARD, hours(n, n + 1), n + 1) for n in range(24)))
        assert await value(forward) == START + timedelta(hours=24)

    async def test_a_span_that_only_touches_the_origin_from_below_moves_nothing(self, forward: Database):
        assert await close(forward, FORWARD, hours(-6, 0), 1) == START
        assert await close(forward, FORWARD, hours(-1, 2), 2) == START + timedelta(hours=2)


class TestBackfill:
    async def test_it_goes_towards_the_past_from_its_upper_end(self, database: Database):
        async with database.transaction() as tx:
            await cursors.open_cursor(tx, BACKWARD, START)
        assert await close(database, BACKWARD, hours(-12, -6), 1) == START
        assert await close(database, BACKWARD, hours(-6, 0), 2) == START - timedelta(hours=12)
        assert await close(database, BACKWARD, hours(-6, -3), 3) == START - timedelta(hours=12)

    async def test_it_never_touches_the_forward_cursor(self, forward: Database):
        await close(forward, FORWARD, hours(0, 6), 1)
        async with forward.transaction() as tx:
            await cursors.open_cursor(tx, BACKWARD, START)
        await close(forward, BACKWARD, hours(-48, 0), 2)
        assert await value(forward) == START + timedelta(hours=6)
        assert await value(forward, BACKWARD) == START - timedelta(hours=48)


class TestCandidates:
    NAME = CursorName("crossref", "works", Operation.UPDATE, "provider_id", CursorType.ID, Scope.CUSTOM, "plan:1")

    async def slices(self, tx: Tx) -> list[IdBounds]:
        bounds = [IdBounds.model_validate({"from": f"{n}0", "to": f"{n}9", "start": n * 10, "end": n * 10 + 10})
                  for n in range(3)]  # fmt: skip
        for number, each in enumerate(bounds):
            spec = {"bounds": {"id": each.model_dump(mode="json", by_alias=True, exclude_none=True)}}
            await tx.execute(
                "insert into ing_plan_slice (plan_id, provenance_code, slice_no, slice_spec, slice_signature_hash,"
                " expr_hash, expr_snapshot, status_code) values (1, 'crossref', %s, %s::jsonb, %s, '', '{}', 'READY')",
                (number, json.dumps(spec), str(number)),
            )
        return bounds

    async def test_the_value_is_the_last_candidate_before_the_first_gap(self, database: Database):
        async with database.transaction() as tx:
            await cursors.open_cursor(tx, self.NAME)
            first, second, third = await self.slices(tx)
            assert await cursors.close_positions(tx, self.NAME, third, closed_by(3)) == 0
            assert await cursors.close_positions(tx, self.NAME, first, closed_by(1)) == 10
            found = await cursors.find(tx, self.NAME)
            assert found is not None
            assert (found.value, found.numeric) == ("09", 10)
            assert await cursors.close_positions(tx, self.NAME, second, closed_by(2)) == 30
            found = await cursors.find(tx, self.NAME)
            assert found is not None
            assert (found.value, found.numeric) == ("29", 30)


class TestTokens:
    NAME = CursorName("feed", "changes", Operation.HARVEST, "page_token", CursorType.TOKEN, Scope.EXPR, "changes")

    async def test_only_who_knows_the_value_before_moves_it(self, database: Database):
        async with database.transaction() as tx:
            await cursors.open_cursor(tx, self.NAME)
            assert await cursors.move_token(tx, self.NAME, None, "a", closed_by(1))
            assert not await cursors.move_token(tx, self.NAME, None, "b", closed_by(2))
            assert await cursors.move_token(tx, self.NAME, "a", "b", closed_by(3))
            found = await cursors.find(tx, self.NAME)
        assert found is not None
        assert found.value == "b"

    async def test_ids_only_grow(self, database: Database):
        name = CursorName("feed", "changes", Operation.HARVEST, "id", CursorType.ID, Scope.EXPR, "changes")
        async with database.transaction() as tx:
            await cursors.open_cursor(tx, name)
            assert await cursors.move_token(tx, name, None, "9", closed_by(1))
            assert await cursors.move_token(tx, name, "9", "10", closed_by(2))
            assert not await cursors.move_token(tx, name, "10", "9", closed_by(3))
            found = await cursors.find(tx, name)
        assert found is not None
        assert found.numeric == 10


spans = st.tuples(st.integers(-3, 20), st.integers(1, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))


class TestAnyOrder:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(closed=st.lists(spans, min_size=1, max_size=12), is_forward=st.booleans())
    async def test_the_value_is_the_end_of_the_stretch_from_the_origin(
        self, database: Database, closed: list[tuple[int, int]], is_forward: bool
    ):
        """Against a set of hours: the model has nothing of the real thing's arithmetic."""
        origin = 0 if is_forward else 20
        name = FORWARD if is_forward else BACKWARD
        async with database.transaction() as tx:
            await tx.execute("delete from ing_cursor")
            await tx.execute("delete from ing_cursor_event")
            await cursors.open_cursor(tx, name, START + timedelta(hours=origin))
        done: set[int] = set()
        last: datetime | None = None
        for task, (first, end) in enumerate(closed):
            reached = await close(database, name, hours(first, end), task)
            done |= set(range(first, end))
            edge = origin
            while (edge if is_forward else edge - 1) in done:
                edge += 1 if is_forward else -1
            assert reached == START + timedelta(hours=edge)
            assert last is None or (reached >= last if is_forward else reached <= last)
            last = reached
        async with database.transaction() as tx:
            rows = await fetch_all(tx, "select count(*) as n from ing_cursor_event")
        assert rows[0]["n"] == len(closed)
