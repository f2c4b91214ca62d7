"""Slices of a span are the span: nothing is left out, nothing is in two of them, whatever the estimates say."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.harvest.planning import slicing
from penstock.harvest.planning.slicing import Candidate, Grid, Limits
from penstock.harvest.slices import Span
from penstock.harvest.spec import Window

START = datetime(2024, 5, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

grids = st.builds(
    lambda align, granularity, widest, narrowest: Grid.of(
        Window(align=align, granularity=granularity, max_window=max(widest, narrowest), min_window=narrowest)
    ),
    st.sampled_from(["sec", "min", "hour", "day"]),
    st.sampled_from([timedelta(0), timedelta(seconds=1), timedelta(minutes=7), DAY]),
    st.sampled_from([timedelta(minutes=10), HOUR, 7 * HOUR, DAY, 5 * DAY]),
    st.sampled_from([timedelta(minutes=1), HOUR]),
)
spans = st.builds(
    lambda offset, width: Span(START + timedelta(seconds=offset), START + timedelta(seconds=offset + width)),
    st.integers(-10_000_000, 10_000_000),
    st.integers(1, 600_000),
)


def limits(items: int = 100, reach: int | None = None, requests: int | None = None) -> Limits:
    return Limits(items, requests, reach, page_size=10, id_batch_size=None)


def halves(window: Span, grid: Grid, most: Limits, count, *, newest_first: bool = False):
    async def counted(span: Span) -> int | None:
        return count(span)

    return asyncio.run(slicing.halve(window, grid, most, counted, newest_first=newest_first))


def assert_partition(span: Span, parts: list[Span]) -> None:
    assert parts[0].start == span.start
    assert parts[-1].end == span.end
    assert all(left.end == right.start for left, right in itertools.pairwise(parts))


class TestWindows:
    @given(span=spans, grid=grids, newest_first=st.booleans())
    @settings(max_examples=150, deadline=None)
    def test_they_are_a_partition_none_wider_than_allowed_cut_on_the_grid(self, span, grid, newest_first):
        made = list(slicing.windows(span, grid, newest_first=newest_first))
        assert made == list(slicing.windows(span, grid, newest_first=newest_first))
        assert made == sorted(made, reverse=newest_first)
        assert_partition(span, sorted(made))
        assert all(each.end - each.start <= grid.widest for each in made)
        if grid.unit <= grid.widest:
            inner = [each.end for each in sorted(made)[:-1]]
            assert all(grid.floor(edge) == edge for edge in inner)

    def test_days_begin_at_midnight_utc(self):
        grid = Grid.of(Window(align="day", max_window=DAY, granularity=DAY))
        made = list(slicing.windows(Span(START + 5 * HOUR, START + 3 * DAY), grid))
        assert [each.start.hour for each in made] == [5, 0, 0]


class TestHalving:
    @given(
        span=spans, grid=grids, newest_first=st.booleans(),
        answers=st.lists(st.one_of(st.none(), st.integers(0, 10**6)), min_size=1, max_size=30),
    )  # fmt: skip
    @settings(max_examples=100, deadline=None)
    def test_whatever_is_counted_it_ends_in_a_partition(self, span, grid, newest_first, answers):
        given_out = iter(answers)
        window = next(slicing.windows(span, grid))
        cuts = halves(window, grid, limits(50_000, 10_000), lambda _: next(given_out, None), newest_first=newest_first)
        parts = [cut.span for cut in cuts]
        assert parts == sorted(parts, reverse=newest_first)
        assert_partition(window, sorted(parts))
        if len(parts) > 1:
            assert min(part.end - part.start for part in parts) >= grid.narrowest

    def test_a_window_is_halved_until_each_part_fits_and_only_left_halves_are_counted(self):
        asked = []

        def count(span: Span) -> int:
            asked.append(span)
            return int((span.end - span.start) / HOUR) * 10

        cuts = halves(Span(START, START + DAY), Grid.of(Window(align="min", min_window=HOUR)), limits(60), count)
        assert [cut.estimate for cut in cuts] == [60, 60, 60, 60]
        assert all(cut.is_halved for cut in cuts)
        assert len(asked) == 4  # the whole, and one for each cut

    @pytest.mark.parametrize("most", [limits(10**6, reach=60), limits(10**6, requests=6)])
    def test_the_ceiling_and_the_number_of_requests_count_too(self, most):
        cuts = halves(
            Span(START, START + DAY), Grid.of(Window()), most, lambda span: (span.end - span.start) // HOUR * 10
        )
        assert len(cuts) == 4

    def test_at_the_narrowest_window_it_is_kept_and_marked(self):
        grid = Grid.of(Window(align="hour", min_window=12 * HOUR))
        cuts = halves(Span(START, START + DAY), grid, limits(10**6, reach=10), lambda _: 1000)
        assert [cut.is_over for cut in cuts] == [True, False]  # all of it is in the left half, says the source

    def test_without_an_estimate_nothing_is_cut(self):
        assert len(halves(Span(START, START + DAY), Grid.of(Window()), limits(1), lambda _: None)) == 1

    def test_requests_are_pages_and_details(self):
        two_phase = Limits(100, None, None, page_size=100, id_batch_size=20)
        assert [two_phase.requests_for(items) for items in (None, 0, 100, 101)] == [1, 1, 6, 8]


class TestPages:
    @given(total=st.integers(0, 5000), size=st.integers(1, 50), per=st.integers(1, 20))
    def test_stretches_follow_each_other_and_reach_beyond_the_estimate(self, total, size, per):
        made = slicing.page_stretches(total, size, per)
        assert made[0].from_page == 0
        assert all(left.to_page == right.from_page for left, right in itertools.pairwise(made))
        assert made[-1].to_page * size > total

    def test_they_end_at_the_last_page_there_can_be(self):
        assert slicing.page_stretches(10_000, 10, 30, most=100)[-1].to_page == 100


class TestIds:
    @given(count=st.integers(1, 300), per=st.integers(1, 50), buckets=st.sampled_from([0, 1, 7]))
    def test_every_candidate_is_in_one_stretch_and_positions_have_no_gaps(self, count, per, buckets):
        ids = [f"id-{number}" for number in range(count)]
        made = slicing.id_stretches([Candidate(each) for each in ids], 10, per, buckets)
        assert sorted(each for stretch in made for each in stretch.ids) == sorted(ids)
        edges = [(stretch.bounds.start, stretch.bounds.end) for stretch in made]
        assert edges[0][0] == 10
        assert all(left[1] == right[0] for left, right in itertools.pairwise(edges))
        assert max(len(stretch.ids) for stretch in made) <= per
        if buckets:
            assert all(
                slicing.bucket_of(each, buckets) == stretch.bounds.hash_bucket
                for stretch in made
                for each in stretch.ids
            )


class TestBudget:
    def test_slices_are_taken_in_order_as_far_as_it_reaches(self):
        assert slicing.affordable([5, 5, 5], 12) == 2
        assert slicing.affordable([5, 5, 5], None) == 3
        assert slicing.affordable([50], 12) == 0
        assert slicing.affordable([50], 12, at_least=1) == 1
        assert slicing.affordable([], 12, at_least=1) == 0
