"""Lists of which something is missing: when they are read again, when they are believed, when they are cut."""

import random

import pytest
from tests.unit.harvest.executing.roads import DAY, START, course, page, walk

from penstock.harvest.executing.paging import Course
from penstock.harvest.executing.position import Overflow, Position
from penstock.harvest.executing.tally import Tally
from penstock.harvest.page import Page


def losing(road: Course, dice: random.Random) -> tuple[set[str], set[str], Position | Overflow]:
    """A list from which items leave while it is read, and whose source now and then sends the page before once more:
    what was seen of it, what is left of it, and how it ended."""
    held, tally, seen = [str(n) for n in range(dice.randint(1, 60))], Tally(), set()
    position: Position | Overflow = road.begin()
    while isinstance(position, Position) and (ask := road.ask(position)):
        if dice.random() < 0.3:
            held = [item for item in held if dice.random() < 0.9]
        first = max(0, ask.offset - 10 * (dice.random() < 0.2))
        shown = held[first : first + 10]
        seen |= set(shown)
        tally.note(shown, position.reading)
        answer = Page(ids=shown, served=len(shown), total=len(held))
        position = road.after_list(position, answer, tally.found(position.reading), START)
    return seen, set(held), position


class TestReadingAgain:
    ROAD = course(pagination={"type": "OFFSET", "pageSize": 10})

    def test_missing_ids_make_the_list_begin_anew(self):
        [_, after] = walk(self.ROAD, [page(10, total=15), page(3, 10, total=15)])
        assert (after.reading, after.offset, after.is_listed) == (2, 0, False)

    def test_a_second_reading_that_brings_them_is_the_end(self):
        answers = [page(10, total=15), page(3, 10, total=15), page(10, total=15), page(5, 10, total=15)]
        assert walk(self.ROAD, answers)[-1].is_finished
        assert not walk(self.ROAD, answers)[-1].is_short

    def test_a_second_reading_without_news_ends_it_short_and_short_is_not_finished(self):
        after = walk(self.ROAD, [page(3, total=5), page(3, total=5)])[-1]
        assert self.ROAD.ask(after) is None
        assert after.is_short
        assert not after.is_finished

    def test_one_that_ends_short_with_a_full_page_is_cut_as_if_the_source_had_a_limit(self):
        after = walk(self.ROAD, [page(10, total=23), page(10, 10, total=23), page(0, total=23)] * 2)[-1]
        assert not isinstance(after, Overflow)
        limited = course(pagination={"type": "PAGE", "pageSize": 10, "hasMorePath": "$.m"})
        answers = [page(10, total=23, has_more=True), page(10, 10, total=23, has_more=False)]
        assert walk(limited, answers * 2)[-1] == Overflow("20 of 23 results came", DAY)

    def test_what_left_since_an_earlier_reading_does_not_hide_what_is_missing_in_this_one(self):
        """The first reading misses 30 to 32. In the second the page before comes again, shifted, for the third one."""
        first = [page(10, n, total=40) for n in (0, 10, 20)] + [page(7, 33, total=37)]
        second = [page(10, 3, total=37), page(10, 13, total=37), page(10, 14, total=36), page(6, 34, total=36)]
        after = walk(self.ROAD, first + second)[-1]
        assert (after.reading, after.is_listed) == (3, False)
        third = [page(10, n, total=36) for n in (4, 14, 24)] + [page(6, 34, total=36)]
        after = walk(self.ROAD, first + second + third)[-1]
        assert after.is_finished
        assert not after.is_short

    def test_no_news_prove_nothing_while_items_leave(self):
        shifting = [page(10, total=15), page(4, 10, total=14)]
        after = walk(self.ROAD, shifting * 2)[-1]
        assert (after.reading, after.is_listed) == (3, False)

    def test_a_list_that_never_holds_still_is_cut_into_about_as_many_parts_as_it_has_pages(self):
        after = walk(self.ROAD, [page(10, total=25), page(10, 10, total=25), page(4, 20, total=24)] * 4)[-1]
        assert isinstance(after, Overflow)
        assert (after.rest, after.pages) == (DAY, 3)

    def test_a_total_that_also_grows_is_an_estimate_and_ends_with_the_first_reading_without_news(self):
        wavering = [page(10, total=24), page(10, 10, total=25), page(3, 20, total=24)]
        after = walk(self.ROAD, wavering * 2)[-1]
        assert (after.is_exhausted, after.is_short, after.is_finished) == (True, True, False)

    def test_where_it_cannot_be_cut_it_stays_short(self):
        road = course(pagination={"type": "OFFSET", "pageSize": 10}, window={"granularity": "1d"})
        after = walk(road, [page(10, total=15), page(4, 10, total=14)] * 4)[-1]
        assert (after.is_exhausted, after.is_short, after.is_finished) == (True, True, False)

    @pytest.mark.parametrize("seed", range(40))
    def test_a_list_that_only_loses_items_is_never_taken_for_whole_while_one_of_them_was_not_seen(self, seed: int):
        dice = random.Random(seed)
        for _ in range(20):
            seen, left, end = losing(self.ROAD, dice)
            assert isinstance(end, Overflow) or end.is_short or seen >= left

    def test_a_total_that_shrinks_between_readings_is_the_new_truth(self):
        after = walk(self.ROAD, [page(3, total=5), page(3, total=3)])[-1]
        assert after.is_finished
        assert not after.is_short

    def test_items_that_leave_a_linked_list_while_it_is_read_are_not_missing(self):
        road = course(pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n"})
        after = walk(road, [page(10, total=15, next_token="b"), page(4, 10, total=14)])[-1]
        assert after.is_finished
        assert not after.is_short

    def test_a_full_page_that_links_to_itself_is_measured_against_the_largest_total(self):
        road = course(pagination={"type": "TOKEN", "pageSize": 10, "nextTokenPath": "$.n"})
        after = walk(road, [page(10, total=30, next_token="b"), page(10, total=10, next_token="b")])[-1]
        assert (after.reading, after.is_listed) == (2, False)

    def test_a_source_can_be_spared(self):
        road = course(pagination={"type": "OFFSET", "pageSize": 10, "reconcile": False})
        assert walk(road, [page(3, total=5)])[0].is_finished
