"""Whatever happens to a source and to its harvest: the watermark covers what is stored, and in the end it is all there.

What comes late by no more than the safety lag is always caught. What comes later than that is caught by the overlap if
it reaches so far, by a refresh if the record is known, and otherwise by a backfill.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import ClassVar

import pytest
import structlog
from tests.chaos.harvest_histories import first_failure
from tests.support.harvest_histories import History, Step
from tests.support.harvest_shapes import Shape
from tests.support.harvest_stage import Stage, opened

from penstock.kernel.db import Database, fetch_all
from penstock.kernel.redis import Redis

_PLAIN = Shape(
    "token", 3, inclusive=False, granularity=1, align="sec", units=6, lag=10, overlap=0, behind=0, ceiling=None,
    has_total=False, counts=False, two_phase=False, id_batch=5, slice_items=1000,
)  # fmt: skip
_PLAN_AND_WORK = (Step("plan"), Step("work", (20, 1, 0)))


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """Thousands of troubles on purpose."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.fixture
async def stage(database: Database, redis_client: Redis) -> AsyncIterator[Stage]:
    async with opened(database, redis_client) as made:
        yield made


async def held(stage: Stage) -> dict[str, int]:
    async with stage.database.transaction() as tx:
        rows = await fetch_all(tx, "select provider_id, version::int as number from ing_record order by 1")
    return {row["provider_id"]: row["number"] for row in rows}


def shaped(**changes: object) -> Shape:
    return Shape(**{**{name: getattr(_PLAIN, name) for name in Shape.__slots__}, **changes})


class TestAnyHistory:
    @pytest.mark.parametrize("first", [1, 1001, 2001, 3001])
    async def test_every_record_ends_as_in_the_source_none_missed_none_twice(self, stage: Stage, first: int):
        failure = await first_failure(stage, first, 6)
        assert failure is None, failure


class TestLateArrivals:
    """A record stamped 12:00 that appears at 12:01 is a minute late."""

    _SOME_TIME = (Step("pass", (100,)), *_PLAN_AND_WORK)

    async def test_what_is_no_later_than_the_safety_lag_is_caught(self, stage: Stage):
        steps = (*self._SOME_TIME, Step("change", ("a", 10)), Step("pass", (20,)), *_PLAN_AND_WORK)
        await stage.stand(History(0, _PLAIN, steps))
        assert await held(stage) == {"a": 1}

    @pytest.mark.parametrize(("overlap", "caught"), [(4, {}), (5, {"a": 1})])
    async def test_what_is_later_is_caught_where_the_overlap_reaches(self, stage: Stage, overlap: int, caught: dict):
        steps = (*self._SOME_TIME, Step("change", ("a", 15)), Step("pass", (20,)), *_PLAN_AND_WORK)
        await stage.stand(History(0, shaped(overlap=overlap), steps))
        assert await held(stage) == caught

    async def test_a_late_version_of_a_known_record_is_caught_by_a_refresh(self, stage: Stage):
        known = (Step("change", ("a", 0)), *self._SOME_TIME)
        later = (Step("change", ("a", 50)), Step("pass", (20,)), *_PLAN_AND_WORK)
        await stage.stand(History(0, _PLAIN, (*known, *later)))
        assert await held(stage) == {"a": 1}
        await stage.stand(History(0, _PLAIN, (*known, *later, Step("update"), Step("work", (20, 1, 0)))))
        assert await held(stage) == {"a": 2}

    async def test_what_no_overlap_reaches_is_caught_by_a_backfill(self, stage: Stage):
        steps = (*self._SOME_TIME, Step("change", ("a", 60)), Step("backfill", (0,)), Step("work", (20, 1, 0)))
        await stage.stand(History(0, _PLAIN, steps))
        assert await held(stage) == {"a": 1}


class TestClocks:
    async def test_a_clock_that_is_behind_holds_back_the_first_harvest_already(self, stage: Stage):
        """Nobody knows of it when the first plan is made; the answers tell."""
        shape = shaped(behind=60, lag=0)
        steps = (Step("pass", (100,)), *_PLAN_AND_WORK, Step("change", ("a", 0)), Step("pass", (100,)), *_PLAN_AND_WORK)
        await stage.stand(History(0, shape, steps))
        assert await held(stage) == {"a": 1}

    async def test_one_that_is_days_behind_cannot_be_known_and_the_safety_lag_has_to_be_enough(self, stage: Stage):
        shape = shaped(inclusive=True, granularity=60, align="day", units=3, lag=172801, behind=259210, has_total=True)
        steps = (Step("pass", (86399,)), *_PLAN_AND_WORK, Step("change", ("a", 0)))
        await stage.play(History(0, shape, steps))  # it is late by our clock: a backfill brings it
        assert await held(stage) == {"a": 1}
        later = (*steps, Step("pass", (864000,)), *_PLAN_AND_WORK)
        await stage.stand(History(0, replace(shape, lag=345600), later))
        assert await held(stage) == {"a": 1}


class TestCeilings:
    @pytest.mark.parametrize("kind", ["token", "url"])
    @pytest.mark.parametrize("ceiling", [5, 6])
    async def test_a_source_that_just_stops_linking_at_its_limit_is_asked_in_smaller_windows(
        self, stage: Stage, kind: str, ceiling: int
    ):
        """It names no total: seven records, and nothing says that the last of them were left out."""
        shape = shaped(kind=kind, page_size=3, units=10, lag=0, ceiling=ceiling, has_total=False)
        changes = tuple(step for ident in "abcdefg" for step in (Step("change", (ident, 0)), Step("pass", (1,))))
        await stage.stand(History(0, shape, (*changes, Step("pass", (20,)), *_PLAN_AND_WORK)))
        assert await held(stage) == dict.fromkeys("abcdefg", 1)


class TestPagesThatShift:
    """Twelve records on pages of three. What changes leaves the window, and those behind it move up."""

    _SHAPE: ClassVar = {"kind": "offset", "has_total": True, "units": 60}
    _TWELVE = tuple(step for ident in "abcdefghijkl" for step in (Step("change", (ident, 0)), Step("pass", (1,))))
    _READY = (*_TWELVE, Step("pass", (30,)), Step("plan"))

    @pytest.mark.parametrize("trouble", [{}, {8: Step("die")}, {9: Step("die")}, {8: Step("die answered")}])
    async def test_what_left_since_the_first_reading_does_not_hide_what_slipped_by_in_both(
        self, stage: Stage, trouble: dict[int, Step]
    ):
        """The first reading misses j; the second one misses a page, and has a smaller total to live up to."""
        shifts = {4: Step("change", ("a", 0)), 7: Step("repeat", ("b", 0))}
        work = (Step("work", (1, 1, 0), {**shifts, **trouble}), Step("work", (1, 1, 0)))
        await stage.stand(History(0, shaped(**self._SHAPE), (*self._READY, *work)))
        assert set(await held(stage)) == set("abcdefghijkl")

    async def test_a_list_that_never_holds_still_is_cut_into_windows_that_do(self, stage: Stage):
        shifts = {4: Step("change", ("a", 0)), 8: Step("change", ("b", 0)), 12: Step("change", ("c", 0)),
                  15: Step("change", ("d", 0))}  # fmt: skip
        work = (Step("work", (1, 1, 0), shifts), Step("work", (20, 1, 0)))
        await stage.stand(History(0, shaped(**self._SHAPE), (*self._READY, *work)))
        assert set(await held(stage)) == set("abcdefghijkl")
        async with stage.database.transaction() as tx:
            tasks = await fetch_all(tx, "select status_code, count(*) as n from ing_task group by 1 order by 1")
        assert [(task["status_code"], task["n"]) for task in tasks] == [("PARTIAL", 1), ("SUCCEEDED", 3)]


class TestPaging:
    async def test_a_limit_that_is_no_whole_number_of_pages_hides_nothing(self, stage: Stage):
        many = tuple(step for ident in "abcdefghijklmnop" for step in (Step("change", (ident, 0)), Step("pass", (1,))))
        await stage.play(History(0, shaped(kind="offset", ceiling=10, units=30), many))
        assert len(await held(stage)) == 16

    async def test_an_answer_as_long_as_was_asked_for_may_have_been_cut(self, stage: Stage):
        many = tuple(Step("change", (ident, late)) for ident, late in (("a", 0), ("b", 1), ("c", 2), ("d", 3)))
        await stage.play(History(0, shaped(kind="time"), (Step("pass", (5,)), *many)))
        assert len(await held(stage)) == 4
