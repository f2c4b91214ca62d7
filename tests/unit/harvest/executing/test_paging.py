"""From an answer to the next request: every kind of pagination, its ends, and what happens when pages go missing."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.harvest.executing.roads import DAY, START, course, page, walk

from penstock.harvest.executing.paging import Course
from penstock.harvest.executing.position import Overflow, Phase
from penstock.harvest.executing.tally import Found
from penstock.harvest.page import Page
from penstock.harvest.slices import Span, half_of
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError


class TestOffsets:
    ROAD = course(pagination={"type": "OFFSET", "pageSize": 10})

    def test_a_full_page_leads_to_the_next_offset(self):
        [after] = walk(self.ROAD, [page(10)])
        assert self.ROAD.ask(after).offset == 10

    def test_a_page_that_is_not_full_is_the_last(self):
        [_, after] = walk(self.ROAD, [page(10), page(3, 10)])
        assert after.is_finished
        assert self.ROAD.ask(after) is None

    def test_an_empty_page_after_a_full_one_is_an_end(self):
        assert walk(self.ROAD, [page(10), page(0)])[-1].is_finished

    def test_the_page_before_once_more_is_asked_for_again_at_its_place(self):
        again = page(10)
        again.ids.reverse()
        [first, repeated, after] = walk(self.ROAD, [page(10), again, page(10, 10)])
        assert self.ROAD.ask(repeated) == self.ROAD.ask(first)
        assert self.ROAD.ask(after).offset == 20

    def test_a_source_that_insists_on_the_same_page_is_believed(self):
        offsets = [self.ROAD.ask(each).offset for each in walk(self.ROAD, [page(10)] * 5)]
        assert offsets == [10, 10, 10, 10, 20]

    def test_an_explicit_word_of_the_source_counts_more_than_the_length(self):
        assert not walk(self.ROAD, [page(3, has_more=True)])[0].is_finished
        assert walk(self.ROAD, [page(10, has_more=False)])[0].is_finished


class TestLinksThatStand:
    """The source does not hear the token that it is sent: what it has stored so far must not pass for everything."""

    ROAD = course(pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n", "hasMorePath": "$.m"})

    @pytest.mark.parametrize("following", [page(10, next_token="t", has_more=True), page(10, has_more=True)])
    def test_more_without_a_way_to_it_is_an_error(self, following):
        with pytest.raises(PenstockError) as caught:
            walk(self.ROAD, [page(10, next_token="t", has_more=True), following])
        assert caught.value.code is error_codes.SOURCE_ENDLESS

    def test_so_is_the_page_before_with_the_token_that_was_sent(self):
        with pytest.raises(PenstockError) as caught:
            walk(self.ROAD, [page(10, next_token="t")] * 2)
        assert caught.value.code is error_codes.SOURCE_ENDLESS

    def test_the_same_token_behind_another_page_is_an_end(self):
        assert walk(self.ROAD, [page(10, next_token="t"), page(10, 10, next_token="t")])[-1].is_finished


class TestPages:
    def test_a_slice_of_pages_ends_with_its_last_page(self):
        road = course(
            dimension="PAGE",
            bounds={"page": {"fromPage": 5, "toPage": 7, "pageSize": 10}},
            pagination={"type": "PAGE", "base1": True, "pageSize": 10},
        )
        assert road.ask(road.begin()).page_no == 5
        [first, second] = walk(road, [page(10), page(10, 10)])
        assert road.ask(first).page_no == 6
        assert second.is_finished


class TestTokens:
    ROAD = course(pagination={"type": "TOKEN", "pageSize": 10, "initialToken": "*", "nextTokenPath": "$.next"})

    def test_the_first_request_carries_the_initial_token(self):
        assert self.ROAD.ask(self.ROAD.begin()).token == "*"

    def test_the_token_of_an_answer_goes_into_the_next_request(self):
        [after] = walk(self.ROAD, [page(10, next_token="b")])
        assert self.ROAD.ask(after).token == "b"

    @pytest.mark.parametrize(
        "last", [page(10), page(3, next_token=""), page(0, next_token="c"), page(10, next_token="*")]
    )
    def test_no_token_an_empty_page_or_the_same_token_is_an_end(self, last: Page):
        assert walk(self.ROAD, [last])[0].is_finished

    def test_a_short_page_ends_only_where_the_source_always_sends_a_token(self):
        assert not walk(self.ROAD, [page(3, next_token="b")])[0].is_finished
        road = course(pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n", "shortPageEnds": True})
        assert walk(road, [page(3, next_token="b")])[0].is_finished

    def test_a_full_page_without_a_token_is_asked_for_once_more(self):
        road = course(pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n", "tailProbe": True})
        [first, second] = walk(road, [page(10), page(10)])
        assert not first.is_finished
        assert road.ask(first).token is None
        assert second.is_finished

    def test_a_token_that_died_meanwhile_is_not_used_again(self):
        road = course(pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n", "tokenTtl": "5m"})
        [after] = walk(road, [page(10, next_token="b")])
        assert road.resume(after, START + timedelta(minutes=4)).token == "b"
        anew = road.resume(after, START + timedelta(minutes=6))
        assert (anew.token, anew.page, anew.reading) == (None, 0, 2)


class TestAddresses:
    def test_the_address_of_an_answer_is_the_next_request(self):
        road = course(pagination={"type": "URL", "pageSize": 10, "nextUrlPath": "$.next"})
        [first, last] = walk(road, [page(10, next_url="https://s/2"), page(10, 10, next_url="https://s/2")])
        assert road.ask(first).url == "https://s/2"
        assert last.is_finished


class TestWindows:
    ROAD = course(pagination={"type": "TIME", "timeStep": "6h", "maxPageSize": 100})

    def test_each_request_asks_for_one_step_and_the_last_ends_with_the_slice(self):
        asked, position = [], self.ROAD.begin()
        while not position.is_finished:
            asked.append(self.ROAD.ask(position).span)
            position = self.ROAD.after_list(position, page(5), Found(5, 5), START)
        assert asked == [Span(START + timedelta(hours=h), START + timedelta(hours=h + 6)) for h in (0, 6, 12, 18)]

    def test_a_window_that_may_be_cut_is_asked_for_again_in_half(self):
        [after] = walk(self.ROAD, [page(100)])
        assert self.ROAD.ask(after).span == Span(START, START + timedelta(hours=3))

    def test_an_answer_as_long_as_was_asked_for_may_be_cut(self):
        query = {"n": "${page.size}", "from": "${window.from}"}
        road = course(pagination={"type": "TIME", "pageSize": 20, "maxPageSize": 100}, http={"queryTemplate": query})
        [after] = walk(road, [page(20)])
        assert road.ask(after).span == Span(START, START + timedelta(hours=12))

    def test_a_page_size_that_the_source_never_hears_of_limits_nothing(self):
        road = course(pagination={"type": "TIME", "pageSize": 20}, http={"queryTemplate": {"from": "${window.from}"}})
        assert walk(road, [page(50)])[-1].is_finished

    def test_an_answer_with_less_than_the_total_was_cut(self):
        [after] = walk(self.ROAD, [page(5, total=6)])
        assert self.ROAD.ask(after).span == Span(START, START + timedelta(hours=3))

    def test_a_step_that_was_halved_grows_back_to_its_width_and_no_further(self):
        position = walk(self.ROAD, [page(100), page(5), page(5), page(5)])[-1]
        assert self.ROAD.ask(position).span == Span(START + timedelta(hours=15), START + timedelta(hours=21))

    def test_the_smallest_window_that_is_still_too_full_cannot_be_read(self):
        road = course(
            bounds={"time": {"from": START, "to": START + timedelta(seconds=1)}},
            pagination={"type": "TIME", "maxPageSize": 100},
        )
        [after] = walk(road, [page(100)])
        assert isinstance(after, Overflow)

    @given(st.integers(2, 100_000), st.integers(1, 600))
    def test_a_half_is_inside_and_on_a_step(self, steps: int, seconds: int):
        granularity = timedelta(seconds=seconds)
        middle = half_of(Span(START, START + granularity * steps), granularity)
        assert START < middle < START + granularity * steps
        assert (middle - START) % granularity == timedelta(0)

    def test_a_window_as_full_as_was_asked_for_may_have_been_cut(self):
        road = course(
            pagination={"type": "TIME", "pageSize": 50, "maxPageSize": 100},
            http={"queryTemplate": {"limit": "${page.size}"}},
        )
        [after] = walk(road, [page(50)])
        assert road.ask(after).span == Span(START, START + timedelta(hours=12))

    def test_where_nobody_says_how_much_fits_the_total_tells(self):
        road = course(pagination={"type": "TIME"})
        [after] = walk(road, [page(50, total=51)])
        assert road.ask(after).span == Span(START, START + timedelta(hours=12))
        assert walk(road, [page(50, total=50)])[-1].is_finished

    def test_after_a_narrow_window_they_widen_no_further_than_the_source_allows(self):
        position = self.ROAD.begin()
        for served in (100, 100, 5, 5, 5, 5):
            position = self.ROAD.after_list(position, page(served), Found(0, 0), START)
        asked = self.ROAD.ask(position).span
        assert asked.end - asked.start == timedelta(hours=6)


class TestCeilings:
    ROAD = course(pagination={"type": "OFFSET", "pageSize": 10, "ceiling": 30})

    def test_a_total_over_the_ceiling_is_known_with_the_first_page(self):
        [after] = walk(self.ROAD, [page(10, total=31)])
        assert isinstance(after, Overflow)
        assert (after.rest, after.total) == (DAY, 31)

    def test_without_a_total_the_ceiling_is_met_when_pages_go_on(self):
        assert isinstance(walk(self.ROAD, [page(10), page(10, 10), page(10, 20)])[-1], Overflow)

    def test_no_page_is_asked_for_across_the_ceiling_unless_a_total_says_that_all_fits(self):
        road = course(pagination={"type": "OFFSET", "pageSize": 10, "ceiling": 25})
        assert isinstance(walk(road, [page(10), page(10, 10)])[-1], Overflow)
        assert walk(road, [page(10, total=23), page(10, 10, total=23), page(3, 20, total=23)])[-1].is_finished

    def test_a_slice_that_just_fits_is_read_to_its_end(self):
        assert walk(self.ROAD, [page(10, total=30), page(10, 10, total=30), page(10, 20, total=30, has_more=False)])[
            -1
        ].is_finished

    def test_a_source_that_may_not_be_bridged_ends_at_the_limit(self):
        road = course(pagination={"type": "OFFSET", "pageSize": 10, "maxPage": 2, "bridgeToTime": False})
        assert walk(road, [page(10), page(10, 10)])[-1].is_finished

    def test_what_it_leaves_out_is_noted(self):
        road = course(pagination={"type": "OFFSET", "pageSize": 10, "maxPage": 2, "bridgeToTime": False})
        assert walk(road, [page(10, total=21), page(10, 10, total=21)])[-1].is_short
        assert not walk(road, [page(10, total=20), page(10, 10, total=20)])[-1].is_short
        assert walk(road, [page(3, is_truncated=True)])[-1].is_short

    def test_an_answer_that_says_it_was_cut_short_is_an_overflow(self):
        assert isinstance(walk(self.ROAD, [page(3, is_truncated=True)])[0], Overflow)


class TestSourcesWithoutEnd:
    OFFSETS = course(pagination={"type": "OFFSET", "pageSize": 10})
    TOKENS = course(pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n"})
    ADDRESSES = course(pagination={"type": "URL", "pageSize": 10, "nextUrlPath": "$.n"})

    @staticmethod
    def given_up_after(road: Course, answer: Callable[[int], Page], most: int = 1000) -> int:
        position = road.begin()
        for asked in range(most):
            try:
                position = road.after_list(position, answer(asked), Found(asked, asked), START)
            except PenstockError as failure:
                assert failure.code is error_codes.SOURCE_ENDLESS
                return asked
            assert not position.is_listed
        raise AssertionError("it goes on for ever")

    def test_one_that_ignores_the_offset_is_given_up(self):
        assert self.given_up_after(self.OFFSETS, lambda _: page(10)) < 50

    def test_one_that_begins_from_the_start_behind_its_end_is_given_up(self):
        assert self.given_up_after(self.OFFSETS, lambda n: page(10, n % 7 * 10)) < 200

    def test_one_that_ignores_the_token_and_makes_new_ones_is_given_up(self):
        assert self.given_up_after(self.TOKENS, lambda n: page(10, next_token=str(n))) < 20

    @pytest.mark.parametrize("length", [2, 3, 8, 13])
    def test_links_in_a_circle_are_given_up(self, length: int):
        asked = self.given_up_after(self.ADDRESSES, lambda n: page(10, n % length * 10, next_url=f"u{n % length}"))
        assert asked < 16 * length

    def test_a_circle_behind_many_good_pages_is_found_too(self):
        def answer(n: int) -> Page:
            place = n if n < 100 else 100 + n % 5
            return page(10, place * 10, next_url=f"u{place}")

        assert self.given_up_after(self.ADDRESSES, answer) < 400

    def test_one_that_always_has_more_and_sends_nothing_is_given_up(self):
        assert self.given_up_after(self.OFFSETS, lambda _: page(0, has_more=True)) < 300

    def test_empty_pages_in_between_are_passed_over(self):
        answers = [page(10 if n % 150 == 0 else 0, n * 10, has_more=True) for n in range(2000)]
        assert not walk(self.OFFSETS, answers)[-1].is_listed

    def test_a_long_list_is_read_to_its_end(self):
        answers = [page(10, n * 10, next_token=str(n)) for n in range(3000)]
        assert walk(self.TOKENS, [*answers, page(1, 99_999)])[-1].is_finished


class TestDetails:
    ROAD = course(
        pagination={"type": "OFFSET", "pageSize": 10},
        batching={"idBatchSize": 4, "twoPhase": {"enabled": True, "linkedEndpoint": "d"}},
        detail={},
    )

    def test_listed_ids_are_fetched_in_batches_before_the_list_goes_on(self):
        [position] = walk(self.ROAD, [page(10)])
        sizes = []
        while (ask := self.ROAD.ask(position)).phase is Phase.DETAIL:
            sizes.append(len(ask.ids))
            position = self.ROAD.after_details(position)
        assert sizes == [4, 4, 2]
        assert (ask.phase, ask.offset) == (Phase.LIST, 10)

    def test_it_is_finished_only_when_the_last_details_are_there(self):
        [position] = walk(self.ROAD, [page(3)])
        assert position.is_listed
        assert not position.is_finished
        assert self.ROAD.after_details(position).is_finished

    def test_a_refused_batch_is_halved_until_the_bad_id_stands_alone(self):
        [position] = walk(self.ROAD, [page(4)])
        sizes = []
        while position is not None:
            sizes.append(len(self.ROAD.ask(position).ids))
            last, position = position, self.ROAD.with_fewer_ids(position)
        assert sizes == [4, 2, 1]
        assert len(self.ROAD.ask(self.ROAD.after_details(last)).ids) == 3

    def test_an_id_that_is_listed_twice_is_fetched_once(self):
        [position] = walk(self.ROAD, [Page(ids=["a", "b", "a"], served=3)])
        assert position.pending == ("a", "b")


class TestBeginningAnew:
    TWO_PHASES: ClassVar[dict[str, Any]] = {
        "batching": {"idBatchSize": 4, "twoPhase": {"enabled": True, "linkedEndpoint": "d", "threshold": 50}},
        "detail": {},
    }
    TOKENS = course(
        pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n", "tokenTtl": "5m"}, **TWO_PHASES
    )

    def test_ids_that_are_pending_stay_so(self):
        [after] = walk(self.TOKENS, [page(10, next_token="b")])
        anew = self.TOKENS.resume(after, START + timedelta(minutes=6))
        assert (anew.page, anew.reading, anew.pending) == (0, 2, after.pending)
        assert len(anew.pending) == 10

    def test_a_list_that_has_ended_needs_its_token_no_more(self):
        after = walk(self.TOKENS, [page(10, next_token="b"), page(3, 10)])[-1]
        assert after.is_listed
        assert self.TOKENS.resume(after, START + timedelta(days=1)) == after

    def test_a_source_that_goes_on_refusing_is_not_asked_for_ever(self):
        [after] = walk(self.TOKENS, [page(10, next_token="b")])
        tries = 0
        while tries < 9 and self.TOKENS.may_restart(self.TOKENS.ask(after), after):
            after = msgspec.structs.replace(self.TOKENS.restart(after), page=1, token="b")
            tries += 1
        assert tries == 2

    def test_a_window_that_is_halved_leaves_no_ids_of_the_whole(self):
        road = course(pagination={"type": "TIME", "pageSize": 10, "ceiling": 10}, **self.TWO_PHASES)
        [after] = walk(road, [page(10)])
        assert (after.pending, after.since) == ((), DAY.start)
