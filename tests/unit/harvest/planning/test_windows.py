"""Which stretch of time a trigger means, and the refusals."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.planning import NOW, compiled

from penstock.harvest.cursors import Cursor, CursorName, Scope
from penstock.harvest.planning import windows
from penstock.harvest.planning.windows import Stretch, Wish
from penstock.harvest.slices import Span
from penstock.harvest.spec import CursorType, Operation
from penstock.kernel.errors import PenstockError, Sentence

MAY = datetime(2024, 5, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(hours: float) -> datetime:
    return MAY + timedelta(hours=hours)


def cursor(watermark: datetime, origin: datetime = MAY) -> Cursor:
    name = CursorName("crossref", "works", Operation.HARVEST, "updated_at", CursorType.TIME, Scope.EXPR, "works")
    return Cursor(name, watermark.isoformat(), watermark, None, origin, (Span(origin, watermark),), None, NOW)


def wish(since: datetime | None = None, until: datetime | None = None, behind: timedelta = timedelta(0)) -> Wish:
    return Wish(since, until, NOW, behind)


class TestFirstHarvest:
    def test_it_begins_at_the_earliest_and_ends_before_the_safety_lag(self):
        found = windows.harvest_stretch(compiled().spec, wish(), None)
        assert found == Stretch(Span(MAY, NOW - HOUR), MAY)  # 11:50, floored to the hour

    def test_a_source_whose_clock_is_behind_is_given_more_time(self):
        found = windows.harvest_stretch(compiled().spec, wish(behind=HOUR), None)
        assert found.window.end == NOW - 2 * HOUR

    def test_without_an_earliest_it_begins_some_time_ago(self):
        spec = compiled(window={"earliest": None, "initial": "2d"}).spec
        assert windows.harvest_stretch(spec, wish(), None).window.start == NOW - 2 * DAY

    def test_since_says_where_it_begins(self):
        found = windows.harvest_stretch(compiled().spec, wish(since=at(30.5)), None)
        assert found.origin == found.window.start == at(30)

    def test_since_in_the_future_is_refused(self):
        with pytest.raises(PenstockError, match="HARVEST_WINDOW_INVALID"):
            windows.harvest_stretch(compiled().spec, wish(since=NOW + DAY), None)


class TestNextHarvest:
    def test_it_goes_on_from_the_watermark(self):
        found = windows.harvest_stretch(compiled().spec, wish(), cursor(at(24)))
        assert found == Stretch(Span(at(24), NOW - HOUR), MAY)

    def test_the_overlap_is_read_again_but_nothing_before_the_origin(self):
        spec = compiled(window={"overlap": "2h"}).spec
        found = windows.harvest_stretch(spec, wish(), cursor(at(24)))
        assert found.window.start == at(22)
        assert found.rereads == Span(at(22), at(24))
        assert windows.harvest_stretch(spec, wish(), cursor(at(1))).window.start == MAY

    def test_when_all_is_stored_there_is_a_sentence_and_no_overlap_for_its_own_sake(self):
        spec = compiled(window={"overlap": "2h"}).spec
        assert isinstance(windows.harvest_stretch(spec, wish(), cursor(NOW - HOUR)), Sentence)

    def test_since_before_the_first_harvest_is_for_a_backfill(self):
        with pytest.raises(PenstockError) as refused:
            windows.harvest_stretch(compiled().spec, wish(since=MAY - DAY), cursor(at(24)))
        assert "backfill" in refused.value.details["advice"]["en"]

    def test_since_beyond_the_watermark_would_leave_a_gap(self):
        with pytest.raises(PenstockError) as refused:
            windows.harvest_stretch(compiled().spec, wish(since=at(30)), cursor(at(24)))
        assert "leave since away" in refused.value.details["advice"]["en"]

    def test_since_within_what_is_stored_goes_on_from_the_watermark(self):
        found = windows.harvest_stretch(compiled().spec, wish(since=at(3)), cursor(at(24)))
        assert found.window.start == at(24)


class TestBackfill:
    SPEC = compiled(Operation.BACKFILL, window={"earliest": None}).spec

    def test_it_ends_where_the_harvest_began(self):
        found = windows.backfill_stretch(self.SPEC, wish(since=MAY - 5 * DAY), cursor(at(24)))
        assert found == Stretch(Span(MAY - 5 * DAY, MAY), MAY)

    def test_or_where_the_harvest_has_come(self):
        found = windows.backfill_stretch(self.SPEC, wish(since=at(2)), cursor(at(24)))
        assert found.window == Span(at(2), at(24))

    def test_reading_again_what_the_harvest_has_stored_must_be_asked_for(self):
        whole = compiled(Operation.BACKFILL, window={"earliest": MAY}).spec
        with pytest.raises(PenstockError, match="nothing is older"):
            windows.backfill_stretch(whole, wish(), cursor(at(24)))
        assert windows.backfill_stretch(whole, wish(since=MAY), cursor(at(24))).window == Span(MAY, at(24))

    def test_or_at_the_safety_lag_when_there_was_none(self):
        assert windows.backfill_stretch(self.SPEC, wish(since=at(2)), None).window.end == NOW - HOUR

    @pytest.mark.parametrize("asked", [wish(), wish(since=at(5), until=at(3))], ids=["no beginning", "backwards"])
    def test_it_needs_a_beginning_before_its_end(self, asked):
        with pytest.raises(PenstockError, match="HARVEST_WINDOW_INVALID"):
            windows.backfill_stretch(self.SPEC, asked, None)


hour_spans = st.builds(lambda first, width: Span(at(first), at(first + width)), st.integers(0, 50), st.integers(1, 20))


def hours_in(spans: list[Span]) -> set[int]:
    return {hour for span in spans for hour in range(80) if span.start <= at(hour) < span.end}


class TestArithmetic:
    @given(st.lists(hour_spans, max_size=6), st.lists(hour_spans, max_size=6))
    def test_minus_leaves_what_is_in_one_and_not_in_the_other(self, spans, taken):
        assert hours_in(windows.minus(spans, taken)) == hours_in(spans) - hours_in(taken)

    @given(hour_spans, st.lists(hour_spans, max_size=4), st.lists(hour_spans, max_size=4), hour_spans)
    def test_what_is_stored_is_done_except_what_is_wanted_again(self, window, stored, busy, rereads):
        found = windows.to_do(window, rereads, stored, busy)
        assert hours_in(found) == hours_in([window]) - (hours_in(stored) - hours_in([rereads])) - hours_in(busy)
