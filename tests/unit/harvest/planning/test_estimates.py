"""Estimates: the source is asked first, seldom, and never twice about the same window."""

from datetime import timedelta

import pytest
from tests.support.planning import NOW, Counts, compiled

from penstock.harvest.planning import CountingEstimator
from penstock.harvest.planning.estimates import PlanEstimates
from penstock.harvest.slices import Span
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

SPAN = Span(NOW - timedelta(days=1), NOW)
COUNTS = {"count": {"queryTemplate": {"rows": "0"}}}


class TestAskingTheSource:
    async def test_the_query_that_only_counts_is_laid_over_the_usual_one(self):
        asked = []

        async def ask(spec, sections, span):
            asked.append((sections.http.query_template, span))
            return 42

        made = compiled(http={"queryTemplate": {"rows": "100", "q": "x"}}, **COUNTS)
        assert await CountingEstimator(ask, Counts(lambda _: 7)).count(made, SPAN) == 42
        assert asked == [({"rows": "0", "q": "x"}, SPAN)]

    async def test_a_source_that_cannot_count_is_not_asked(self):
        assert await CountingEstimator(None, Counts(lambda _: 7)).count(compiled(), SPAN) == 7

    @pytest.mark.parametrize("code", [error_codes.SOURCE_UNAVAILABLE, error_codes.SOURCE_REFUSED])
    async def test_a_source_that_does_not_answer_leaves_us_to_experience(self, code):
        async def ask(spec, sections, span):
            raise PenstockError(code)

        assert await CountingEstimator(ask, Counts(lambda _: 7)).count(compiled(**COUNTS), SPAN) == 7


class TestOnePlan:
    async def test_the_same_window_is_counted_once(self):
        counts = Counts(lambda _: 5)
        estimates = PlanEstimates(counts, compiled(), 10)
        assert [await estimates.count(SPAN), await estimates.count(SPAN)] == [5, 5]
        assert len(counts.asked) == 1

    async def test_it_asks_no_more_often_than_it_may_and_says_so(self):
        counts = Counts(lambda _: 5)
        estimates = PlanEstimates(counts, compiled(), 3)
        found = [await estimates.count(Span(NOW, NOW + timedelta(days=days))) for days in range(1, 6)]
        assert found == [5, 5, 5, None, None]
        assert estimates.notes == ["countsUsedUp"]
