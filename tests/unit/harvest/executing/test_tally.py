"""Counting the different ids of a list that is read more than once."""

from penstock.harvest.executing.tally import Found, Tally, hash_of


class TestCounting:
    def test_an_id_counts_once_in_a_reading_and_once_in_all(self):
        tally = Tally()
        tally.note(["a", "b", "b"], 1)
        tally.note(["b", "c"], 1)
        assert tally.found(1) == Found(ever=3, here=3)

    def test_a_new_reading_begins_with_none_and_forgets_nothing(self):
        tally = Tally()
        tally.note(["a", "b", "c"], 1)
        assert tally.found(2) == Found(ever=3, here=0)
        tally.note(["c", "d"], 2)
        assert tally.found(2) == Found(ever=4, here=2)

    def test_what_was_stored_counts_as_if_it_had_been_read_now_in_whatever_order_it_comes(self):
        first = Tally()
        stored = [(1, first.note(["a", "b"], 1)), (1, first.note(["c"], 1)), (2, first.note(["c", "d"], 2))]
        for order in (stored, stored[::-1]):
            second = Tally()
            second.recall(order)
            assert second.found(2) == first.found(2) == Found(ever=4, here=2)


class TestPagesCompared:
    def test_order_and_repeats_make_no_difference(self):
        assert hash_of(["a", "b"]) == hash_of(["b", "a", "a"]) != hash_of(["a"])

    def test_an_empty_page_is_like_no_other(self):
        assert hash_of([]) is None
