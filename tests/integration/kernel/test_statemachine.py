"""Walks over every machine: only declared moves happen, each leaves one history row and one event."""

import asyncio
from enum import StrEnum
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import machines
from tests.support.machines import JOB, PAGE

from penstock.documents.states import JobStatus as Job
from penstock.documents.states import PageStatus as Page
from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event
from penstock.kernel.statemachine import (
    Batch,
    Crowd,
    Machine,
    Step,
    Transition,
    arrow,
    diagram,
    enter,
    enter_many,
    move,
    move_many,
    moving,
)
from penstock.kernel.workers import WORKER


@pytest.fixture(autouse=True)
async def _tables(database: Database):
    async with database.transaction() as tx:
        await machines.create_tables(tx)


async def begin(database: Database, machine: Machine, transition: Transition) -> str:
    """Insert a row in its first state, as a domain's store would."""
    entity_id = str(uuid4())
    async with database.transaction() as tx:
        if machine is WORKER:
            await tx.execute(
                "insert into worker_heartbeats (worker_id, hostname, status) values (%s, 'h', %s)",
                (entity_id, transition.target),
            )
        else:
            await tx.execute(
                f"insert into {machine.table} (id, status) values (%s, %s)", (entity_id, transition.target)
            )
        await enter(tx, machine, step(machine, entity_id, transition))
    return entity_id


def step(machine: Machine, entity_id: str, transition: Transition, **more) -> Step:
    by = min(transition.by)
    return Step(entity_id, transition.source, transition.target, by=by, trigger="test", **more)


async def status_of(database: Database, machine: Machine, entity_id: str) -> str:
    async with database.transaction() as tx:
        [row] = await fetch_all(tx, f"select status from {machine.table} where {machine.key} = %s", (entity_id,))
    return row["status"]


async def records(database: Database, machine: Machine, entity_id: str):
    async with database.transaction() as tx:
        history = await fetch_all(
            tx,
            "select from_status, to_status from state_transitions"
            " where entity_type = %s and entity_id = %s order by id",
            (machine.entity, entity_id),
        )
        events = await fetch_all(
            tx,
            "select event_type, notice, payload, merchant_id from outbox_events"
            " where entity_type = %s and entity_id = %s order by event_id",
            (machine.entity, entity_id),
        )
    return history, events


class TestWalking:
    @pytest.mark.parametrize("machine", machines.ALL, ids=lambda machine: machine.entity)
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_any_walk_leaves_a_complete_history_and_one_event_per_move(self, machine, database, loop, data):
        choices = data.draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=12))
        loop.run_until_complete(self._walk(database, machine, choices))

    async def _walk(self, database: Database, machine: Machine, choices: list[int]) -> None:
        begins = [transition for transition in machine.transitions if transition.source is None]
        taken = [begins[choices[0] % len(begins)]]
        entity_id = await begin(database, machine, taken[0])
        for choice in choices[1:]:
            target = list(machine.states)[choice % len(machine.states)]
            current = taken[-1].target
            declared = machine.find(current, target)
            async with database.transaction() as tx:
                if declared is None:
                    with pytest.raises(PenstockError) as refused:
                        await move(tx, machine, Step(entity_id, current, target, by="pipeline", trigger="test"))
                    assert refused.value.code is error_codes.TRANSITION_UNDECLARED
                else:
                    await move(tx, machine, step(machine, entity_id, declared))
                    taken.append(declared)
        assert await status_of(database, machine, entity_id) == taken[-1].target
        history, events = await records(database, machine, entity_id)
        assert [(row["from_status"], row["to_status"]) for row in history] == [(t.source, t.target) for t in taken]
        assert [row["event_type"] for row in events] == [f"{machine.entity}.{t.target.lower()}" for t in taken]
        assert [row["notice"] for row in events] == [t.notice for t in taken]


class TestMoving:
    async def test_every_declared_arrow_works_for_everyone_who_may_take_it(self, database):
        for machine in machines.ALL:
            for transition in machine.transitions:
                for by in transition.by:
                    first = next(t for t in machine.transitions if t.source is None)
                    if transition.source is None:
                        continue
                    entity_id = await begin(database, machine, first)
                    async with database.transaction() as tx:
                        await tx.execute(
                            f"update {machine.table} set status = %s where {machine.key} = %s",
                            (transition.source, entity_id),
                        )
                        await move(
                            tx, machine, Step(entity_id, transition.source, transition.target, by=by, trigger="t")
                        )

    async def test_a_part_that_may_not_make_the_move_is_refused(self, database):
        entity_id = await begin(database, JOB, JOB.find(None, Job.UPLOADED))
        async with database.transaction() as tx:
            with pytest.raises(PenstockError) as refused:
                await move(tx, JOB, Step(entity_id, Job.UPLOADED, Job.CANCELLED, by="pipeline", trigger="t"))
        assert refused.value.code is error_codes.TRANSITION_DENIED

    async def test_of_ten_racing_moves_one_wins_and_the_others_are_told(self, database):
        entity_id = await begin(database, JOB, JOB.find(None, Job.UPLOADED))

        async def race(target: Job) -> bool:
            try:
                async with database.transaction() as tx:
                    by = "api" if target is Job.CANCELLED else "gateway"
                    await move(tx, JOB, Step(entity_id, Job.UPLOADED, target, by=by, trigger="race"))
            except PenstockError as lost:
                assert lost.code is error_codes.STATE_CHANGED
                return False
            return True

        won = await asyncio.gather(*(race([Job.EVALUATING, Job.CANCELLED][n % 2]) for n in range(10)))
        assert won.count(True) == 1
        history, events = await records(database, JOB, entity_id)
        assert len(history) == len(events) == 2

    async def test_nothing_remains_of_a_move_whose_transaction_fails(self, database):
        entity_id = await begin(database, JOB, JOB.find(None, Job.UPLOADED))
        with pytest.raises(ZeroDivisionError):
            async with database.transaction() as tx:
                await move(tx, JOB, Step(entity_id, Job.UPLOADED, Job.EVALUATING, by="gateway", trigger="t"))
                raise ZeroDivisionError
        assert await status_of(database, JOB, entity_id) == Job.UPLOADED
        history, events = await records(database, JOB, entity_id)
        assert len(history) == len(events) == 1

    async def test_other_columns_change_with_the_state_and_the_event_names_the_merchant(self, database):
        entity_id = await begin(database, JOB, JOB.find(None, Job.UPLOADED))
        async with database.transaction() as tx:
            wanted = Step(
                entity_id, Job.UPLOADED, Job.EVALUATING, by="gateway", trigger="t",
                changes={"note": "hello"}, payload={"pages": 3},
            )  # fmt: skip
            row = await move(tx, JOB, wanted)
        assert (row["status"], row["note"]) == (Job.EVALUATING, "hello")
        _, events = await records(database, JOB, entity_id)
        assert events[-1]["merchant_id"] == "m1"
        assert events[-1]["payload"] == {"from": "UPLOADED", "to": "EVALUATING", "trigger": "t", "pages": 3}

    async def test_a_row_that_is_gone_is_a_lost_race(self, database):
        async with database.transaction() as tx:
            with pytest.raises(PenstockError) as lost:
                await move(tx, JOB, Step(str(uuid4()), Job.UPLOADED, Job.EVALUATING, by="gateway", trigger="t"))
        assert lost.value.code is error_codes.STATE_CHANGED


class TestMovingTogether:
    async def test_all_move_and_what_the_block_does_is_kept(self, database):
        moves = [(JOB, await self._wanted(database)) for _ in range(2)]
        async with database.transaction() as tx, moving(tx, *moves):
            await tx.execute(f"update {JOB.table} set note = 'kept'")
        for _, wanted in moves:
            assert await status_of(database, JOB, wanted.entity_id) == Job.EVALUATING
            history, events = await records(database, JOB, wanted.entity_id)
            assert len(history) == len(events) == 2
        async with database.transaction() as tx:
            assert {row["note"] for row in await fetch_all(tx, f"select note from {JOB.table}")} == {"kept"}

    async def test_one_lost_race_undoes_all(self, database):
        first, gone = await self._wanted(database), str(uuid4())
        lost = Step(gone, Job.UPLOADED, Job.EVALUATING, by="gateway", trigger="t")
        with pytest.raises(PenstockError) as failure:
            async with database.transaction() as tx, moving(tx, (JOB, first), (JOB, lost)):
                await tx.execute(f"update {JOB.table} set note = 'kept'")
        assert failure.value.code is error_codes.STATE_CHANGED
        assert failure.value.details["id"] == gone
        assert await status_of(database, JOB, first.entity_id) == Job.UPLOADED

    async def _wanted(self, database: Database) -> Step:
        entity_id = await begin(database, JOB, JOB.find(None, Job.UPLOADED))
        return Step(entity_id, Job.UPLOADED, Job.EVALUATING, by="gateway", trigger="t")


class TestMovingMany:
    async def begin_many(self, database: Database, number: int) -> list[str]:
        async with database.transaction() as tx:
            rows = await fetch_all(
                tx,
                "insert into machine_page (id, status, note) select gen_random_uuid(), 'PENDING', 'p' || n"
                " from generate_series(1, %s) n returning id",
                (number,),
            )
        return sorted(row["id"] for row in rows)

    def batch(self, ids, target=Page.AI_QUEUED, **more) -> Batch:
        about = Event("job.pages_queued", "job", "j1", {"job": "j1"}, merchant_id="m1", topics=("job:j1",))
        wanted = {"by": "pipeline", "trigger": "t", "event": about, "listed_as": "pages", "facts": {"name": "note"}}
        return Batch(ids, Page.PENDING, target, **{**wanted, **more})

    async def told(self, database: Database) -> tuple[list[dict], list[dict]]:
        async with database.transaction() as tx:
            history = await fetch_all(tx, "select * from state_transitions order by id")
            events = await fetch_all(tx, "select * from outbox_events order by event_id")
        return history, events

    async def test_each_row_is_recorded_and_fifty_share_an_event(self, database):
        ids = await self.begin_many(database, 120)
        async with database.transaction() as tx:
            moved = await move_many(tx, PAGE, self.batch(ids, changes={"merchant_id": "m9"}))
        assert [row["id"] for row in moved] == ids
        assert {(row["status"], row["merchant_id"]) for row in moved} == {("AI_QUEUED", "m9")}
        history, events = await self.told(database)
        assert [row["entity_id"] for row in history] == [str(each) for each in ids]
        assert {(row["from_status"], row["to_status"], row["operator"]) for row in history} == {
            ("PENDING", "AI_QUEUED", "pipeline")
        }
        assert [len(row["payload"]["pages"]) for row in events] == [50, 50, 20]
        listed = [page for row in events for page in row["payload"]["pages"]]
        assert listed == [{"name": row["note"], "status": "AI_QUEUED"} for row in moved]
        assert {
            (row["event_type"], row["entity_id"], row["merchant_id"], row["payload"]["to"], row["topics"][0])
            for row in events
        } == {("job.pages_queued", "j1", "m1", "AI_QUEUED", "job:j1")}

    async def test_people_are_told_as_the_arrow_says(self, database):
        [only] = await self.begin_many(database, 1)
        async with database.transaction() as tx:
            await move_many(tx, PAGE, self.batch([only], Page.BLANK))
        _, [event] = await self.told(database)
        assert event["notice"] == PAGE.find(Page.PENDING, Page.BLANK).notice

    async def test_rows_that_have_moved_on_are_left_alone(self, database):
        ids = await self.begin_many(database, 3)
        async with database.transaction() as tx:
            await move_many(tx, PAGE, self.batch(ids[:1], Page.BLANK))
            moved = await move_many(tx, PAGE, self.batch([*ids, uuid4()]))
            assert [row["id"] for row in moved] == ids[1:]
            assert await move_many(tx, PAGE, self.batch(ids)) == []
            assert await move_many(tx, PAGE, self.batch([])) == []
        history, events = await self.told(database)
        assert len(history) == 3
        assert [len(row["payload"]["pages"]) for row in events] == [1, 2]

    async def test_racing_batches_move_each_row_once(self, database):
        ids = await self.begin_many(database, 60)

        async def race(turn: int) -> int:
            async with database.transaction() as tx:
                return len(await move_many(tx, PAGE, self.batch(ids[::-1] if turn % 2 else ids)))

        assert sum(await asyncio.gather(*(race(turn) for turn in range(8)))) == 60
        history, _ = await self.told(database)
        assert len({row["entity_id"] for row in history}) == len(history) == 60

    async def test_an_undeclared_or_denied_move_is_refused(self, database):
        ids = await self.begin_many(database, 1)
        async with database.transaction() as tx:
            for batch in (self.batch(ids, Page.SKIPPED), self.batch(ids, by="output")):
                with pytest.raises(PenstockError) as refused:
                    await move_many(tx, PAGE, batch)
                assert refused.value.code in {error_codes.TRANSITION_UNDECLARED, error_codes.TRANSITION_DENIED}


class TestEnteringTogether:
    def crowd(self, number: int, by: str = "gateway") -> Crowd:
        members = {str(uuid4()): {"page_no": n, "status": "BLANK"} for n in range(1, number + 1)}
        return Crowd(Page.BLANK, by, "prescan", "job", "j-1", members, "m1", ("job:j-1",), "job:j-1")

    @pytest.mark.parametrize(("number", "batches"), [(0, []), (1, [1]), (50, [50]), (51, [50, 1]), (120, [50, 50, 20])])
    async def test_each_is_recorded_and_all_are_announced_in_batches(self, database, number, batches):
        crowd = self.crowd(number)
        async with database.transaction() as tx:
            await enter_many(tx, PAGE, crowd)
            history = await fetch_all(tx, "select entity_id, from_status, to_status from state_transitions order by id")
            events = await fetch_all(tx, "select * from outbox_events order by event_id")
        assert [(row["entity_id"], row["from_status"], row["to_status"]) for row in history] == [
            (member, None, "BLANK") for member in crowd.members
        ]
        assert [len(event["payload"]["pages"]) for event in events] == batches
        told = [page for event in events for page in event["payload"]["pages"]]
        assert told == list(crowd.members.values())
        for event in events:
            assert (event["event_type"], event["entity_type"], event["entity_id"]) == ("pages.blank", "job", "j-1")
            assert (event["notice"], event["topics"], event["merchant_id"]) == ("pages_batch_update", ["job:j-1"], "m1")

    async def test_a_part_that_may_not_is_refused(self, database):
        async with database.transaction() as tx:
            with pytest.raises(PenstockError) as refused:
                await enter_many(tx, PAGE, self.crowd(1, by="output"))
        assert refused.value.code is error_codes.TRANSITION_DENIED


class Light(StrEnum):
    ON = "ON"
    OFF = "OFF"


class TestDeclaring:
    def declare(self, arrows, **more) -> Machine:
        return Machine(entity="light", table="t", key="id", states=Light, arrows=arrows, **more)

    def test_a_state_that_no_arrow_reaches_is_refused(self):
        with pytest.raises(ValueError, match="no arrow leads to"):
            self.declare([arrow(None, Light.ON, "x")])

    def test_an_arrow_declared_twice_is_refused(self):
        with pytest.raises(ValueError, match="declared twice"):
            self.declare([arrow(None, Light.ON, "x"), arrow(None, Light.ON, "y"), arrow(Light.ON, Light.OFF, "x")])

    def test_an_arrow_out_of_an_end_state_is_refused(self):
        with pytest.raises(ValueError, match="terminal"):
            self.declare([arrow(None, Light.ON, "x"), arrow(Light.ON, Light.OFF, "x")], terminal=frozenset({Light.ON}))

    def test_the_diagram_shows_every_arrow(self):
        for machine in machines.ALL:
            drawn = diagram(machine)
            for transition in machine.transitions:
                assert f"{transition.source or '[*]'} --> {transition.target}" in drawn
